package proxy

import (
	"context"
	"net"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/comporta/comporta"
)

// hopByHop reports whether a header concerns one connection (RFC 9110, 7.6.1, and
// what RFC 2616, 13.5.1 listed). So do those that Connection names.
func hopByHop(name string) bool {
	switch name {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings":
		return true
	}
	return false
}

// nominated returns what lines of Connection name besides the connection's own
// options, in canonical spelling; nil, nearly always, for nothing.
func nominated(lines []string) (names []string) {
	for _, line := range lines {
		for name := range strings.SplitSeq(line, ",") {
			name = strings.TrimSpace(name)
			switch {
			case name == "", strings.EqualFold(name, "close"), strings.EqualFold(name, "keep-alive"), strings.EqualFold(name, "upgrade"):
			default:
				names = append(names, textproto.CanonicalMIMEHeaderKey(name))
			}
		}
	}
	return names
}

// removeHopByHop removes from h what concerns the connection it came by.
func removeHopByHop(h http.Header) {
	for _, name := range nominated(h["Connection"]) {
		delete(h, name)
	}
	for name := range h {
		if hopByHop(name) {
			delete(h, name)
		}
	}
}

// outgoing writes into h, which is empty, what to send for in: complete but for the
// deadline. The values are those of in, to be replaced and never changed.
func (p *Proxy) outgoing(h http.Header, in *http.Request, upgrade string) {
	names := nominated(in.Header["Connection"])
	for name, values := range in.Header {
		if !hopByHop(name) && !callersOwn(name) && (names == nil || !slices.Contains(names, name)) {
			h[name] = values
		}
	}
	if hasToken(in.Header["Te"], "trailers") {
		h["Te"] = []string{"trailers"}
	}
	if upgrade != "" {
		h["Connection"], h["Upgrade"] = []string{"Upgrade"}, []string{upgrade}
	}
	p.config.Forward(in, h)
}

// callersOwn reports whether a header of the request would speak for a proxy: a
// forwarding header or one of ours, also in the spelling with underscores, which
// CGI and WSGI cannot tell from the one with dashes.
func callersOwn(name string) bool {
	if len(name) < len("forwarded") {
		return false
	}
	switch name[0] | 0x20 {
	case 'x', 'f', 'c':
	default:
		return false
	}
	return hasPrefixFold(name, "x-forwarded-") || hasPrefixFold(name, "comporta-") ||
		len(name) == len("x-real-ip") && hasPrefixFold(name, "x-real-ip") ||
		len(name) == len("forwarded") && hasPrefixFold(name, "forwarded")
}

// hasPrefixFold reports whether name begins with the lower-case prefix; case does
// not count, and an underscore is a dash.
func hasPrefixFold(name, prefix string) bool {
	if len(name) < len(prefix) {
		return false
	}
	for i := range len(prefix) {
		c := name[i]
		switch {
		case c == '_':
			c = '-'
		case c >= 'A' && c <= 'Z':
			c |= 0x20
		}
		if c != prefix[i] {
			return false
		}
	}
	return true
}

// forwardPeer is the default of Config.Forward.
func forwardPeer(in *http.Request, out http.Header) {
	if host, _, err := net.SplitHostPort(in.RemoteAddr); err == nil {
		out.Set("X-Forwarded-For", host)
	}
	out.Set("X-Forwarded-Host", in.Host)
	proto := "http"
	if in.TLS != nil {
		proto = "https"
	}
	out.Set("X-Forwarded-Proto", proto)
}

// writePatience tells the upstream how long the caller will still wait, in the
// words in which the caller said it; in our own if it said nothing. Without a
// deadline what the caller said goes on unchanged.
func writePatience(ctx context.Context, now time.Time, h http.Header) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return
	}
	ms := strconv.FormatInt(max(deadline.Sub(now).Milliseconds(), 0), 10)
	said := false
	for _, name := range []string{comporta.HeaderRequestTimeoutMs, "X-Envoy-Expected-Rq-Timeout-Ms"} {
		if _, ok := h[name]; ok {
			h[name], said = []string{ms}, true
		}
	}
	if _, ok := h["Grpc-Timeout"]; ok {
		h["Grpc-Timeout"], said = []string{grpcTimeout(ms)}, true
	}
	if !said {
		h[comporta.HeaderRequestTimeoutMs] = []string{ms}
	}
}

// grpcTimeout writes milliseconds as gRPC does: at most eight digits and a unit.
func grpcTimeout(ms string) string {
	if len(ms) <= 8 {
		return ms + "m"
	}
	return ms[:len(ms)-3] + "S" // eight digits of seconds are three years
}

// upgradeOf returns the protocol to which a request or an answer switches; empty
// for none. h2c is none: a tunnel to HTTP/2 would carry requests that no gate has
// seen (CVE-2022-41721).
func upgradeOf(h http.Header) string {
	if !hasToken(h["Connection"], "upgrade") {
		return ""
	}
	protocol := h.Get("Upgrade")
	for name := range strings.SplitSeq(protocol, ",") {
		if strings.EqualFold(strings.TrimSpace(name), schemeH2C) {
			return ""
		}
	}
	return protocol
}

// hasToken reports whether a list-valued header holds a token, in any case.
func hasToken(lines []string, token string) bool {
	for _, line := range lines {
		for t := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(t), token) {
				return true
			}
		}
	}
	return false
}
