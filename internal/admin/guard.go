package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// guard lets a request pass or says why not. With a token every request must
// bring it; without one the listener is on loopback and the Host must say so.
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
		given := sha256.Sum256([]byte(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")))
		if subtle.ConstantTimeCompare(given[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", `Bearer realm="comporta admin"`)
			fail(w, http.StatusUnauthorized, "the token is missing or wrong: send Authorization: Bearer …, or use -token-file")
			return
		}
		next.ServeHTTP(w, r)
	})
}

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
