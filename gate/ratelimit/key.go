package ratelimit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/comporta/comporta"
)

// Key says who shares a bucket: all requests in which every part is the same.
// Make one with ParseKey; the zero value is ParseKey("client").
type Key struct{ parts []part }

// part is alternatives: the first that a request has.
type part []factor

type factor struct {
	kind         factorKind
	header       string // canonical
	bits4, bits6 int
}

type factorKind byte

// The factors. Their numbers are part of what shared stores keep: add at the end.
const (
	byClient factorKind = iota + 1
	byNetwork
	byFingerprint
	byRoute
	byVersion
	byClass
	byMethod
	byHost
	byPath
	byHeader
	byNothing
)

var factorNames = map[string]factorKind{
	"client": byClient, "fingerprint": byFingerprint, "route": byRoute, "version": byVersion,
	"class": byClass, "method": byMethod, "host": byHost, "path": byPath,
}

// ParseKey reads the parts of a key:
//
//	client               the identity, even while it is only claimed
//	network, subnet      the prefix /32 or /64, or /24 or /48, of the address;
//	network/28/56        or any other
//	header:NAME          the value of a header that occurs once
//	fingerprint          the headers by which browsers and libraries differ
//	route, method, host, path, class, version
//
// A part may name alternatives: "header:X-Tenant|client" is the tenant, or for
// a request without one the client. What has none of them is known by its
// network; there is no bucket for all who lack a factor.
func ParseKey(parts ...string) (Key, error) {
	var problems []error
	var k Key
	for _, text := range parts {
		var p part
		for alternative := range strings.SplitSeq(text, "|") {
			f, err := parseFactor(strings.TrimSpace(alternative))
			if err != nil {
				problems = append(problems, fmt.Errorf("ratelimit: key %q: %w", text, err))
				continue
			}
			p = append(p, f)
		}
		k.parts = append(k.parts, p)
	}
	return k, errors.Join(problems...)
}

func parseFactor(s string) (factor, error) {
	if kind, ok := factorNames[s]; ok {
		return factor{kind: kind}, nil
	}
	if name, ok := strings.CutPrefix(s, "header:"); ok {
		if !validHeader(name) {
			return factor{}, fmt.Errorf("%q is no header name", name)
		}
		return factor{kind: byHeader, header: http.CanonicalHeaderKey(name)}, nil
	}
	name, prefix, given := strings.Cut(s, "/")
	f := factor{kind: byNetwork, bits4: addressBits4, bits6: addressBits6}
	switch name {
	case "network":
	case "subnet":
		f.bits4, f.bits6 = subnetBits4, subnetBits6
	default:
		return factor{}, fmt.Errorf("factor %q is unknown: use client, network, subnet, header:NAME, fingerprint, "+
			"route, method, host, path, class or version", s)
	}
	if !given {
		return f, nil
	}
	four, six, _ := strings.Cut(prefix, "/")
	var err4, err6 error
	if f.bits4, err4 = strconv.Atoi(four); err4 != nil || f.bits4 < 8 || f.bits4 > 32 {
		return factor{}, fmt.Errorf("%q: the IPv4 prefix must be between 8 and 32", s)
	}
	if f.bits6, err6 = strconv.Atoi(six); err6 != nil || f.bits6 < 16 || f.bits6 > 128 {
		return factor{}, fmt.Errorf("%q: the IPv6 prefix must be between 16 and 128, as in network/24/64", s)
	}
	return f, nil
}

func validHeader(s string) bool {
	if s == "" {
		return false
	}
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return true
}

// inventable reports whether a stranger can have as many keys as it likes,
// because some part of the key is what the caller says. What bounds such a
// stranger stands in Rule.
func (k Key) inventable() bool {
	for _, p := range k.all() {
		for _, f := range p {
			switch f.kind {
			case byNetwork, byRoute, byClass:
			default:
				return true
			}
		}
	}
	return false
}

var clientKey = []part{{{kind: byClient}}}

func (k Key) all() []part {
	if k.parts == nil {
		return clientKey
	}
	return k.parts
}

// AppendTo appends the key of r: every part with its kind and its length, so
// that two keys are the same bytes only if they are the same parts. Nothing is
// cut. route is the name of r's route.
func (k Key) AppendTo(dst []byte, r *comporta.Request, route string) []byte {
	for _, p := range k.all() {
		dst = p.appendTo(dst, r, route)
	}
	return dst
}

func (p part) appendTo(dst []byte, r *comporta.Request, route string) []byte {
	for i := range p {
		if more, ok := p[i].appendTo(dst, r, route); ok {
			return more
		}
	}
	return appendNetwork(dst, r)
}

// appendNetwork appends what always tells a caller apart: its address, or else
// what the identity stage made of whatever it came with.
func appendNetwork(dst []byte, r *comporta.Request) []byte {
	fallback := factor{kind: byNetwork, bits4: addressBits4, bits6: addressBits6}
	if more, ok := fallback.appendTo(dst, r, ""); ok {
		return more
	}
	switch c := &r.Client; {
	case c.Key != 0:
		return appendNumber(dst, byClient, c.Key)
	case c.Network != 0:
		return appendNumber(dst, byNetwork, c.Network)
	}
	return append(dst, byte(byNothing))
}

// appendTo appends one factor; ok is false when r does not have it.
func (f *factor) appendTo(dst []byte, r *comporta.Request, route string) (more []byte, ok bool) {
	switch f.kind {
	case byClient:
		// An anonymous client of a shared key is its network, which the fallback
		// says more exactly.
		c := &r.Client
		return appendNumber(dst, byClient, c.Key), c.Key != 0 && (!c.Shared || c.Class.Believed())
	case byNetwork:
		addr := addressOf(r)
		if !addr.IsValid() {
			return dst, false
		}
		return appendPrefix(append(dst, byte(byNetwork)), addr, f.bits4, f.bits6), true
	case byFingerprint:
		return appendFingerprint(dst, r.Header), true
	case byRoute:
		return appendText(dst, byRoute, route), true
	case byVersion:
		return appendVersion(dst, &r.Version)
	case byClass:
		return append(dst, byte(byClass), byte(r.Client.Class)), true
	case byMethod:
		return appendText(dst, byMethod, r.Method), true
	case byHost:
		return appendText(dst, byHost, r.Host), true
	case byPath:
		return appendText(dst, byPath, r.Path), true
	default: // byHeader
		values := r.Header[f.header]
		if len(values) != 1 || values[0] == "" {
			return dst, false // gate and service might each read another one of two
		}
		return appendText(appendText(dst, byHeader, f.header), byHeader, values[0]), true
	}
}

func addressOf(r *comporta.Request) netip.Addr {
	if r.Client.Addr.IsValid() {
		return r.Client.Addr
	}
	return r.Remote
}

func appendNumber(dst []byte, kind factorKind, n uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, byte(kind)), n)
}

func appendText(dst []byte, kind factorKind, s string) []byte {
	dst = binary.AppendUvarint(append(dst, byte(kind)), uint64(len(s)))
	return append(dst, s...)
}

func appendVersion(dst []byte, v *comporta.ClientVersion) (more []byte, ok bool) {
	if v.Name == "" {
		return dst, false
	}
	dst = appendText(dst, byVersion, v.Name)
	for _, n := range [...]uint32{v.Major, v.Minor, v.Patch} {
		dst = binary.BigEndian.AppendUint32(dst, n)
	}
	return appendText(dst, byVersion, v.Pre), true
}

// fingerprints are headers that programs send alike and that differ between
// programs. A caller can imitate anybody's, so a fingerprint only ever divides
// what something else limits.
var fingerprints = [...]string{
	"User-Agent", "Accept", "Accept-Language", "Accept-Encoding", "Sec-Ch-Ua", "Sec-Ch-Ua-Platform", "Dnt",
}

func appendFingerprint(dst []byte, h http.Header) []byte {
	dst = append(dst, byte(byFingerprint))
	for _, name := range fingerprints {
		value := ""
		if values := h[name]; len(values) > 0 {
			value = values[0]
		}
		dst = appendText(dst, byHeader, value)
	}
	return dst
}
