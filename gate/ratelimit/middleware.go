package ratelimit

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/internal/hash"
)

// The fields of the httpapi working group's draft 10.
const (
	HeaderRateLimit       = "Ratelimit"
	HeaderRateLimitPolicy = "Ratelimit-Policy"
)

// MiddlewareConfig describes a Middleware.
type MiddlewareConfig struct {
	Limiter *Limiter // required
	// Describe fills in what rules read of a request; nil means Describe, which
	// believes the TCP peer and no header.
	Describe func(*http.Request, *comporta.Request)
	// Refuse answers a request that may not pass; nil means Refuse.
	Refuse func(http.ResponseWriter, *http.Request, *Verdict)
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Middleware returns a function that puts rules in front of a handler. Every
// answer of a request that rules were asked about carries RateLimit and
// RateLimit-Policy. The handler finds the verdict with FromContext.
func Middleware(c MiddlewareConfig) (func(http.Handler) http.Handler, error) {
	if c.Limiter == nil {
		return nil, errors.New("ratelimit: MiddlewareConfig.Limiter is missing: make one with New")
	}
	if c.Describe == nil {
		c.Describe = Describe
	}
	if c.Refuse == nil {
		c.Refuse = Refuse
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.serve(w, r, next) })
	}, nil
}

func (c *MiddlewareConfig) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	var request comporta.Request
	c.Describe(r, &request)
	v := &Verdict{}
	ok := c.Limiter.TakeAt(r.Context(), c.Now(), &request, v)
	v.WriteHeader(w.Header())
	if !ok {
		c.Refuse(w, r, v)
		return
	}
	next.ServeHTTP(w, r.WithContext(NewContext(r.Context(), v)))
}

type verdictKey struct{}

// NewContext returns a context in which FromContext finds v: for those who ask a
// Limiter elsewhere than in Middleware.
func NewContext(ctx context.Context, v *Verdict) context.Context {
	return context.WithValue(ctx, verdictKey{}, v)
}

// FromContext returns the verdict on the request that is being served, for
// Limiter.RefundAt and Limiter.ChargeAt; nil outside of Middleware.
func FromContext(ctx context.Context) *Verdict {
	v, _ := ctx.Value(verdictKey{}).(*Verdict)
	return v
}

// WriteHeader sets RateLimit and RateLimit-Policy, if any rule was asked.
func (v *Verdict) WriteHeader(h http.Header) {
	if len(v.items) == 0 {
		return
	}
	h[HeaderRateLimitPolicy] = []string{string(v.AppendPolicy(nil))}
	h[HeaderRateLimit] = []string{string(v.AppendLimit(nil))}
}

var (
	unknownPeers = hash.NewSeed()
	signals      comporta.Signals // those of the contract
)

// Describe fills in request from r: method, host, path, headers, and as client
// the TCP peer. Forwarding headers are not read, since anybody can write them;
// behind a proxy let gate/identity describe the request. A peer that is no
// address is a client of its own.
func Describe(r *http.Request, request *comporta.Request) {
	request.Method, request.Host, request.Header = r.Method, hostOnly(r.Host), r.Header
	request.Path, request.Query, request.BodySize = r.URL.Path, r.URL.RawQuery, r.ContentLength
	request.TLS = r.TLS
	signals.Read(r.Header, request)
	if addr, ok := ParseAddr(r.RemoteAddr); ok {
		request.Remote, request.Client.Addr = addr, addr
		return
	}
	request.Client.Key = unknownPeers.Start().Str(r.RemoteAddr).Name()
}

func hostOnly(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		hostport = host
	}
	return strings.ToLower(hostport)
}

// Refuse writes the refusal of the wire contract: 429, or 503 when a closed
// rule's store is away, with Retry-After rounded up, and a problem document
// (RFC 9457). The gate uses gate/overload in its place, which knows dialects,
// gRPC and browsers.
func Refuse(w http.ResponseWriter, r *http.Request, v *Verdict) {
	info := v.Reason.Info()
	retryable := info.Retryable && !v.Stop
	p := comporta.Problem{
		Type: "https://github.com/comporta/comporta/blob/main/docs/problems.md#" + info.Code, Title: info.Title, Status: info.Status,
		Code: info.Code, Retryable: retryable, ViolatedPolicies: v.Violated(),
	}
	h := w.Header()
	if retryable {
		wait := max(v.Wait, time.Millisecond)
		p.RetryAfterS = seconds(wait)
		p.RetryAfterMs = int64((wait-1)/time.Millisecond) + 1
		h.Set(comporta.HeaderRetryAfter, strconv.FormatInt(p.RetryAfterS, 10))
		h.Set(comporta.HeaderRetryAfterMs, strconv.FormatInt(p.RetryAfterMs, 10))
	}
	h.Set(comporta.HeaderShouldRetry, strconv.FormatBool(retryable))
	h.Set(comporta.HeaderDecision, info.Code)
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", "application/problem+json")
	w.WriteHeader(info.Status)
	if r.Method == http.MethodHead {
		return
	}
	body, err := json.Marshal(p)
	if err != nil {
		return // cannot be: the document holds strings and numbers only
	}
	_, _ = w.Write(append(body, '\n')) // it fails only when the client has left
}
