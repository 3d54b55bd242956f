package overload

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/comporta/comporta"
)

const (
	headerAllowOrigin      = "Access-Control-Allow-Origin"
	headerAllowCredentials = "Access-Control-Allow-Credentials"
	headerExpose           = "Access-Control-Expose-Headers"

	// exposed lists what a script may read; without it a browser hides all of it.
	exposed = "Retry-After, retry-after-ms, x-should-retry, Retry-Ticket, Retry-Policy, " +
		"RateLimit, RateLimit-Policy, Comporta-Decision, Idempotency-Replayed"
	// exposedGRPC adds what gRPC-Web reads.
	exposedGRPC = exposed + ", grpc-status, grpc-message, grpc-retry-pushback-ms"
)

// origins reads the listed origins; nil when there are none.
func origins(list []string) (map[string]struct{}, error) {
	if len(list) == 0 {
		return nil, nil //nolint:nilnil // no list is no error: everyone is answered with *
	}
	var problems []error
	set := make(map[string]struct{}, len(list))
	for _, o := range list {
		u, err := url.Parse(trimOrigin(o))
		if err != nil || u.Scheme == "" || u.Host == "" || u.Path != "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			problems = append(problems, fmt.Errorf(
				"overload: CORSOrigins: %q is no origin: write scheme and host, like https://app.example; leave the list empty for *", o))
			continue
		}
		set[trimOrigin(o)] = struct{}{}
	}
	return set, errors.Join(problems...)
}

// trimOrigin brings a configured origin into the form that browsers send.
func trimOrigin(o string) string { return strings.ToLower(strings.TrimSuffix(o, "/")) }

// AllowOrigin lets browsers of other origins read an answer of the gateway's own.
// Write does it for refusals; use it for documents that are no refusal.
func (wr *Writer) AllowOrigin(h http.Header, r *http.Request) {
	d := head{h: h}
	wr.allow(&d, r, exposed)
}

// allow writes the CORS lines. They are on every refusal, Origin or not: a cache
// or a proxy between may have taken it off, and without them a browser reports a
// network error, which its script repeats at once.
func (wr *Writer) allow(d *head, r *http.Request, expose string) {
	if wr.origins != nil {
		d.h["Vary"] = append(d.h["Vary"], "Origin")
	}
	switch origin := r.Header.Get("Origin"); {
	case len(d.h[headerAllowOrigin]) > 0:
		// Middleware around the gate has answered, perhaps with credentials.
	case wr.lists(origin):
		d.set(headerAllowOrigin, origin)
		d.set(headerAllowCredentials, "true")
	default:
		d.set(headerAllowOrigin, "*")
	}
	if vs := d.h[headerExpose]; len(vs) > 0 {
		d.h[headerExpose] = append(vs, expose)
		return
	}
	d.set(headerExpose, expose)
}

func (wr *Writer) lists(origin string) bool {
	_, ok := wr.origins[origin]
	return ok
}

// IsPreflight is comporta.Preflight for net/http.
func IsPreflight(r *http.Request) bool { return comporta.Preflight(r.Method, r.Header) }
