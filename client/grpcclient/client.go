package grpcclient

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	"google.golang.org/grpc"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/client/budget"
	"github.com/comporta/comporta/client/retry"
)

// Client is the envelope of a program's gRPC calls: its budgets, breakers and
// bulkheads are shared by all connections that use it. Its methods may be called
// from many goroutines.
type Client struct {
	config       Config
	destinations destinations
	version      atomic.Pointer[string] // what client-version says; a new pointer for every SetVersion
}

// New makes a Client. The error joins all problems of c, each with its field and
// a remedy.
func New(c Config) (*Client, error) {
	budgets, err := budget.New(c.Budget)
	if err := errors.Join(c.check(), err); err != nil {
		return nil, err
	}
	c.orDefaults()
	if c.Rand == nil {
		c.Rand = rand.Float64
	}
	made := &Client{config: c}
	made.destinations = newDestinations(&made.config, budgets)
	made.version.Store(&c.Version)
	return made, nil
}

// DialOptions are what a connection within the envelope is made with: both
// interceptors, and grpc-go's own retries switched off. Interceptors of options
// that come before these are around the envelope and see one call; those that
// come after see every attempt.
func (c *Client) DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(c.Unary),
		grpc.WithChainStreamInterceptor(c.Stream),
		grpc.WithDisableRetry(),
	}
}

// SetVersion changes what client-version says from now on. Destinations that
// refused the former version are asked again.
func (c *Client) SetVersion(version string) error {
	if _, ok := comporta.ParseClientVersion(version); !ok {
		return fmt.Errorf("grpcclient: version %q is not name/semver; write it like acme-app/2.4.1", version)
	}
	c.version.Store(&version)
	return nil
}

// Budgets returns the budgets of the destinations, to tighten or to watch.
func (c *Client) Budgets() *budget.Budgets { return c.destinations.budgets }

// Unary makes the attempts of a call with one message each way. It is a
// grpc.UnaryClientInterceptor, for connections that are not made with
// DialOptions; such a connection needs grpc.WithDisableRetry beside it.
func (c *Client) Unary( //nolint:revive // gRPC counts the arguments
	ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	op := c.begin(ctx, conn.Target(), method, options)
	op.bound = true
	op.op.Replayable = true
	return op.finish(op.unary(func(a *attempt) error {
		return invoke(a.ctx, method, req, reply, conn, a.options(options)...)
	}))
}

// Stream is Unary for streams: a grpc.StreamClientInterceptor.
func (c *Client) Stream(
	ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, options ...grpc.CallOption,
) (grpc.ClientStream, error) {
	s := &stream{call: c.begin(ctx, conn.Target(), method, options), desc: desc}
	s.open = func(a *attempt) (grpc.ClientStream, error) {
		return open(a.ctx, desc, conn, method, a.options(options)...)
	}
	if err := s.connect(); err != nil {
		return nil, s.call.finish(err)
	}
	return s, nil
}

// policy is the envelope for a destination and method within the limits of the
// moment.
func (c *Client) policy(destination, method string) retry.Policy {
	if c.config.Limits == nil {
		return c.config.Policy
	}
	return c.config.Policy.Tighten(c.config.Limits(destination, method))
}
