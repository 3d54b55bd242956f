package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// guard lets a request pass to next or says why not. With a token every request
// must bring it; without one the listener is on loopback and the Host must say so.
func guard(token string, next http.Handler) http.Handler {
	crossOrigin := http.NewCrossOriginProtection()
	want := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := crossOrigin.Check(r); err != nil {
			fail(w, http.StatusForbidden, "a page of another origin may not do this")
			return
		}
		if token == "" {
			if !namesLoopback(r.Host) {
				fail(w, http.StatusForbidden, "the Host must be a loopback name or address: this listener has no token")
				return
			}
			next.ServeHTTP(w, r)
			return
		}
		// Digests are of one length, so the comparison takes as long for any guess.
		given := sha256.Sum256([]byte(bearer(r.Header.Get("Authorization"))))
		if subtle.ConstantTimeCompare(given[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", `Bearer realm="comporta admin"`)
			fail(w, http.StatusUnauthorized, "the token is missing or wrong: send Authorization: Bearer …, or use -token-file")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// bearer returns the token of an Authorization header; of any other scheme, none.
func bearer(authorization string) string {
	scheme, token, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// namesLoopback reports whether a Host header names this machine, as a browser
// that was led here by a foreign DNS name would not.
func namesLoopback(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	host = strings.Trim(host, "[]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}
