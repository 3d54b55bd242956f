package grpclimit

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate/ratelimit"
)

// Config describes an Interceptor.
type Config struct {
	Limiter *ratelimit.Limiter // required
	// Describe fills in what rules read of a call, of which request holds method,
	// path, host and headers already; nil means Describe, which believes the TCP
	// peer and no metadata.
	Describe func(ctx context.Context, fullMethod string, request *comporta.Request)
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Interceptor asks the rules about every call. Its methods may be called from many
// goroutines.
type Interceptor struct{ c Config }

// New returns an Interceptor.
func New(c Config) (*Interceptor, error) {
	if c.Limiter == nil {
		return nil, errors.New("grpclimit: Config.Limiter is missing: make one with ratelimit.New")
	}
	if c.Describe == nil {
		c.Describe = Describe
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Interceptor{c}, nil
}

var (
	_ grpc.UnaryServerInterceptor  = (*Interceptor)(nil).Unary
	_ grpc.StreamServerInterceptor = (*Interceptor)(nil).Stream
)

// Unary is a grpc.UnaryServerInterceptor.
func (i *Interceptor) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	v, header, err := i.ask(ctx, info.FullMethod)
	if err != nil {
		// A trailer that cannot be set belongs to a call that is over.
		_ = grpc.SetTrailer(ctx, header)
		return nil, err
	}
	if len(header) > 0 {
		_ = grpc.SetHeader(ctx, header) // as above
	}
	return handler(ratelimit.NewContext(ctx, v), req)
}

// Stream is a grpc.StreamServerInterceptor.
func (i *Interceptor) Stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	v, header, err := i.ask(ss.Context(), info.FullMethod)
	if err != nil {
		ss.SetTrailer(header)
		return err
	}
	if len(header) > 0 {
		_ = ss.SetHeader(header) // it fails when the call is over
	}
	return handler(srv, &judged{ss, ratelimit.NewContext(ss.Context(), v)})
}

// judged is a stream whose context has the verdict.
type judged struct {
	grpc.ServerStream

	ctx context.Context
}

// Context implements grpc.ServerStream.
func (s *judged) Context() context.Context { return s.ctx }

// ask returns the verdict with the fields that its answer carries: in the header
// of a call that may pass, in the trailer of one that may not.
func (i *Interceptor) ask(ctx context.Context, fullMethod string) (*ratelimit.Verdict, metadata.MD, error) {
	var request comporta.Request
	i.c.Describe(ctx, fullMethod, &request)
	v := &ratelimit.Verdict{}
	ok := i.c.Limiter.TakeAt(ctx, i.c.Now(), &request, v)
	md := metadata.MD{}
	if policy := v.AppendPolicy(nil); len(policy) > 0 {
		md.Set(ratelimit.HeaderRateLimitPolicy, string(policy))
		md.Set(ratelimit.HeaderRateLimit, string(v.AppendLimit(nil)))
	}
	if ok {
		return v, md, nil
	}
	info := v.Reason.Info()
	md.Set(comporta.HeaderDecision, info.Code)
	md.Set(headerPushback, pushback(v))
	return v, md, status.Error(codeOf(v), info.Code+": "+info.Title)
}

const headerPushback = "grpc-retry-pushback-ms"

// pushback is the wait in milliseconds, rounded up, so that who waits as told is
// never early.
func pushback(v *ratelimit.Verdict) string {
	if v.Stop || !v.Reason.Info().Retryable {
		return "-1"
	}
	return strconv.FormatInt(int64((max(v.Wait, 1)-1)/time.Millisecond)+1, 10)
}

func codeOf(v *ratelimit.Verdict) codes.Code {
	if v.Reason == comporta.LimiterUnavailable {
		return codes.Unavailable
	}
	return codes.ResourceExhausted
}

// Describe fills in request from the context of a call: its method, host and
// metadata, and as client the TCP peer.
func Describe(ctx context.Context, fullMethod string, request *comporta.Request) {
	md, _ := metadata.FromIncomingContext(ctx)
	r := &http.Request{Method: http.MethodPost, URL: &url.URL{Path: fullMethod}, Header: make(http.Header, len(md)), ContentLength: -1}
	for name, values := range md {
		if name == ":authority" {
			r.Host = values[0]
			continue
		}
		r.Header[http.CanonicalHeaderKey(name)] = values
	}
	if p, ok := peer.FromContext(ctx); ok {
		r.RemoteAddr, r.TLS = p.Addr.String(), tlsOf(p)
	}
	ratelimit.Describe(r, request)
	request.GRPC = true
}

func tlsOf(p *peer.Peer) *tls.ConnectionState {
	if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
		return &info.State
	}
	return nil
}
