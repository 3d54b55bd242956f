package identity

import (
	"net/http"
	"slices"
	"strings"
)

// connectionOptions are the names that Connection may carry without saying
// anything about the message: the one option that is no field, and the fields
// that every proxy removes unasked (RFC 9110, 7.6.1; RFC 2616, 13.5.1).
var connectionOptions = [...]string{
	"close", "keep-alive", "upgrade", "te", "trailer", "transfer-encoding", "http2-settings",
	"connection", "proxy-connection", "proxy-authenticate", "proxy-authorization",
}

// DropNominated deletes from h the fields that Connection nominates, and leaves
// of Connection what concerns the connection: close, keep-alive, upgrade and
// their like. Call it before anything reads h. It allocates nothing unless a
// field is nominated.
//
// A proxy behind the gate removes what Connection nominates (RFC 9110, 7.6.1).
// If that came after policy, a client could show the gate a key which the service
// never sees, and have it proven by the answer; or an attempt, or a name for its
// request. So it comes first, and once: policy and service read the same
// message, and what the gate itself adds cannot be nominated any more.
//
// Nominations of Content-* and of forwarding headers are forgotten, and the
// fields stay: they are meant for all recipients, so nobody may nominate them
// (RFC 9110, 7.6.1). Without the former a body changes its meaning; without the
// latter a client behind a trusted proxy which passes Connection on could take
// back what that proxy says of it.
func DropNominated(h http.Header) {
	lines := h["Connection"]
	if !nominates(lines) {
		return
	}
	var options []string
	for _, line := range lines {
		for name := range strings.SplitSeq(line, ",") {
			name = strings.TrimSpace(name)
			switch {
			case name == "":
			case connectionOption(name):
				options = append(options, name)
			case !hasFoldedPrefix(name, "content-") && !forwarding(name):
				h.Del(name)
			}
		}
	}
	if len(options) == 0 {
		delete(h, "Connection")
		return
	}
	h["Connection"] = []string{strings.Join(options, ", ")}
}

// nominates reports whether one of the lines of Connection names more than options.
func nominates(lines []string) bool {
	for _, line := range lines {
		for name := range strings.SplitSeq(line, ",") {
			if name = strings.TrimSpace(name); name != "" && !connectionOption(name) {
				return true
			}
		}
	}
	return false
}

func connectionOption(name string) bool {
	return slices.ContainsFunc(connectionOptions[:], func(option string) bool { return strings.EqualFold(option, name) })
}

// unseen says why the service behind a gateway would never see a header as the
// client sent it; empty when it does. Such a header is no credential: the
// service cannot honour what it does not see.
func unseen(name string) string {
	switch {
	case connectionOption(name):
		return "concerns one connection and ends here"
	case hasFoldedPrefix(name, ownPrefix):
		return "is written by the gateway alone"
	case slices.ContainsFunc(rewritten[:], func(r string) bool { return len(r) == len(name) && sameFolded(r, name) }):
		return "is written afresh by the gateway"
	}
	return ""
}

// KeepCredentials copies the configured credentials from in, a request as the
// gate read it, to out, the header that goes to the service: for a proxy that
// removes forwarding headers, among which a credential such as
// X-Forwarded-User counts. It allocates nothing where out has them all.
func (id *Identifier) KeepCredentials(in, out http.Header) {
	for _, name := range id.credentials {
		if _, ok := out[name]; ok {
			continue
		}
		if vs, ok := in[name]; ok {
			out[name] = vs
		}
	}
}
