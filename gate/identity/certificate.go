package identity

import (
	"crypto/tls"
	"crypto/x509"

	"github.com/comporta/comporta"
)

// certificate reads the client certificate. With a chain that the TLS stack has
// verified, the name in it is the identity: it stays when the certificate is
// renewed. Without one, all that is known is that the peer holds a key that
// anybody can make: the public key is then a claim like any header.
func (s *source) certificate(state *tls.ConnectionState, c *comporta.Client, names *names) bool {
	if state == nil || len(state.PeerCertificates) == 0 || state.PeerCertificates[0] == nil {
		return false
	}
	leaf := state.PeerCertificates[0]
	if len(state.VerifiedChains) == 0 {
		if len(leaf.RawSubjectPublicKeyInfo) == 0 {
			return false
		}
		c.Key = nonzero(s.other.SumBytes(leaf.RawSubjectPublicKeyInfo))
		return true
	}
	form, name := subject(leaf)
	h := s.hash.Word(uint64(form))
	switch form {
	case formURI:
		// Part by part: URL.String would allocate on every request.
		u := leaf.URIs[0]
		h = h.Part(u.Scheme).Part(u.User.Username()).Part(u.Host).Part(u.Opaque).Part(u.RawQuery)
		c.Key = nonzero(h.Sum64(u.Path))
		if known, ok := names.cached(c.Key); ok {
			c.Name = known
		} else {
			c.Name = names.learn(c.Key, u.String())
		}
	case formKey:
		if len(leaf.RawSubjectPublicKeyInfo) == 0 {
			return false
		}
		c.Key = nonzero(h.SumBytes(leaf.RawSubjectPublicKeyInfo))
	default:
		c.Key = nonzero(h.Sum64(name))
		c.Name = names.of(c.Key, name)
	}
	c.Class = comporta.ClassVerified
	return true
}

// form says which name of a certificate identifies; part of the key.
type form uint64

const (
	formURI   form = iota + 1 // such as a SPIFFE id
	formDNS                   // first DNS name
	formEmail                 // first e-mail address
	formCN                    // common name of the subject
	formKey                   // no name at all: the public key
)

// subject picks the name that identifies: the most specific that there is. The
// name of formURI stays in leaf.URIs.
func subject(leaf *x509.Certificate) (form, string) {
	switch {
	case len(leaf.URIs) > 0 && leaf.URIs[0] != nil:
		return formURI, ""
	case len(leaf.DNSNames) > 0 && leaf.DNSNames[0] != "":
		return formDNS, leaf.DNSNames[0]
	case len(leaf.EmailAddresses) > 0 && leaf.EmailAddresses[0] != "":
		return formEmail, leaf.EmailAddresses[0]
	case leaf.Subject.CommonName != "":
		return formCN, leaf.Subject.CommonName
	}
	return formKey, ""
}
