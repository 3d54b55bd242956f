package idempotency

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate/overload"
	"github.com/comporta/comporta/store"
)

// Face is how keys are read from HTTP requests where no gate stands. Its zero
// value binds a key to the credentials of its request.
type Face struct {
	Policy Policy
	// Client names who asks, the same in every process; nil, or "" from it, binds
	// the key to the request's Authorization and Cookie.
	Client func(*http.Request) string
	// Route names the route; nil means the pattern of the http.ServeMux around the
	// middleware, if there is one. On one route, another path is a mismatch.
	Route func(*http.Request) string
	// ReadAhead is the largest declared body that is read before the claim, so
	// that one which does not arrive claims nothing; 0 means DefaultReadAhead.
	ReadAhead int64
	// Linger bounds the work for a caller who has left; 0 means DefaultLinger.
	Linger time.Duration
}

// The defaults of a Face.
const (
	DefaultReadAhead = 64 << 10
	DefaultLinger    = 30 * time.Second
)

// Middleware returns a middleware that carries out an operation once, whoever
// repeats it. Requests that are safe by their method, or that bring no key where
// none is required, pass untouched. An operation that takes its connection over is
// in doubt.
func (k *Keeper) Middleware(f Face) (func(http.Handler) http.Handler, error) {
	if err := f.Policy.Check(k.config.Lease); err != nil {
		return nil, err
	}
	if f.ReadAhead == 0 {
		f.ReadAhead = DefaultReadAhead
	}
	if f.Linger == 0 {
		f.Linger = DefaultLinger
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if comporta.SafeMethod(r.Method) {
				next.ServeHTTP(w, r)
				return
			}
			(&visit{k: k, f: &f, w: w, r: r, next: next}).serve()
		})
	}, nil
}

// visit is one request through a Face.
type visit struct {
	k    *Keeper
	f    *Face
	w    http.ResponseWriter
	r    *http.Request
	next http.Handler

	op  Operation
	sum *Sum // of a body that is not read ahead
}

func (v *visit) refuse(ref *overload.Refusal) {
	overload.Refuse(v.w, v.r, ref)
}

func (v *visit) serve() {
	key, fault := v.f.Policy.ReadKey(v.r.Header[comporta.HeaderIdempotencyKey])
	switch {
	case !fault.Go():
		v.no(&fault)
		return
	case key == "":
		v.next.ServeHTTP(v.w, v.r)
		return
	}
	if err := v.name(key); err != nil {
		v.down(err)
		return
	}
	if fault := v.readAhead(); fault != comporta.ReasonNone {
		v.refuse(&overload.Refusal{Reason: fault})
		return
	}
	call, verdict, as := v.k.Take(v.r.Context(), &v.op)
	if call == nil {
		v.tell(&verdict, as)
		return
	}
	v.call(call)
}

// name writes the operation of the request.
func (v *visit) name(key string) error {
	route, client := v.r.Pattern, ""
	if v.f.Route != nil {
		route = v.f.Route(v.r)
	}
	if v.f.Client != nil {
		client = v.f.Client(v.r)
	}
	s := Scope{Client: []byte(client), Method: v.r.Method, Route: route, Host: hostOf(v.r.Host), Key: key}
	if client == "" {
		s.Credentials = CredentialsOf(v.r.Header)
	}
	n, err := v.k.Name(v.r.Context(), &s)
	v.op = Operation{
		Name: n, Policy: &v.f.Policy, Fingerprint: NewFingerprint(v.r.URL.EscapedPath(), v.r.URL.RawQuery),
		Label: store.Label{Client: Clip(client), Method: Clip(v.r.Method), Route: Clip(route), Key: key},
	}
	return err
}

// Clip makes a text fit into a label.
func Clip(s string) string { return s[:min(len(s), store.MaxLabel)] }

func hostOf(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.ToLower(host)
}

// readAhead reads a body of a declared size within the limit, and has a larger
// one digested as it passes.
func (v *visit) readAhead() comporta.Reason {
	body, size := v.r.Body, v.r.ContentLength
	if body == nil || body == http.NoBody || size == 0 {
		v.op.Fingerprint = v.op.Fingerprint.WithNoBody()
		return comporta.ReasonNone
	}
	if size < 0 || size > v.f.ReadAhead {
		v.sum = NewSum()
		v.r.Body = &source{ReadCloser: body, sum: v.sum}
		return comporta.ReasonNone
	}
	read := make([]byte, size)
	if _, err := io.ReadFull(body, read); err != nil {
		return FaultOf(err)
	}
	v.op.Fingerprint = v.op.Fingerprint.WithBody(read)
	v.r.Body = struct {
		io.Reader
		io.Closer
	}{bytes.NewReader(read), body}
	return comporta.ReasonNone
}

// FaultOf names the fault of a client whose body could not be read.
func FaultOf(err error) comporta.Reason {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return comporta.BodyTooLarge
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return comporta.RequestTimeout
	}
	return comporta.MalformedRequest
}

// source digests a body that passes.
type source struct {
	io.ReadCloser

	sum *Sum
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	s.sum.Read(p[:n], err)
	return n, err
}

func (v *visit) call(c *Call) {
	ctx, cancel := Detach(v.r.Context(), v.f.Linger)
	defer cancel()
	r := v.r.WithContext(ctx)
	r.Header = DetachHeader(r.Header, 0)
	c.Serve(v.w, r, v.next, Serving{
		Body: v.sum,
		Gone: func() bool { return v.r.Context().Err() != nil },
	})
}

// tell answers with what stands in the way.
func (v *visit) tell(verdict *Verdict, as Event) {
	if verdict.Refusal != nil {
		v.k.Count(as)
		ReplayRefusal(v.w, verdict.Refusal, verdict.Wait)
		return
	}
	if verdict.Replay == nil {
		v.no(verdict)
		return
	}
	if c := verdict.Compare; c != nil {
		if err := Drain(c, v.r.Body); err != nil {
			v.refuse(&overload.Refusal{Reason: FaultOf(err)})
			return
		}
		if other := c.Verdict(); !other.Go() {
			v.no(&other)
			return
		}
	}
	v.k.Count(as)
	if a := &verdict.Replay.Answer; a.Omitted {
		ref := NotKept(a)
		v.refuse(&ref)
	} else {
		Replay(v.w, a)
	}
}

// Drain reads a body into c until the rest of it cannot change the answer.
func Drain(c *Compare, body io.Reader) error {
	buf := make([]byte, min(c.Left(), 32<<10))
	for !c.Enough() {
		n, err := body.Read(buf)
		_, _ = c.Write(buf[:n]) // it never fails
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (v *visit) no(verdict *Verdict) {
	if verdict.Reason == comporta.IdempotencyUnavailable {
		v.down(verdict.Err)
		return
	}
	v.k.CountRefusal(verdict.Reason)
	v.refuse(&overload.Refusal{Reason: verdict.Reason, Why: verdict.Detail, Wait: verdict.Wait})
}

// down answers while the store is down.
func (v *visit) down(err error) {
	if v.k.Down(&v.f.Policy, err) {
		v.next.ServeHTTP(v.w, v.r)
		return
	}
	v.refuse(&overload.Refusal{Reason: comporta.IdempotencyUnavailable})
}
