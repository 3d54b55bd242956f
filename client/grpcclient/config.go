package grpcclient

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/breaker"
	"github.com/comporta/comporta/bulkhead"
	"github.com/comporta/comporta/client"
	"github.com/comporta/comporta/client/budget"
	"github.com/comporta/comporta/client/retry"
)

const maxMargin = time.Minute

// Config says how a Client calls. The zero value is the default envelope,
// without breaker and bulkhead.
type Config struct {
	// Policy is the envelope: attempts, time, waits.
	Policy retry.Policy
	// Budget bounds the repeats to each destination.
	Budget budget.Config
	// Breaker and Bulkhead, if set, make one of each for every destination. A
	// stream holds its place in the bulkhead until it ends.
	Breaker  *breaker.Config
	Bulkhead *bulkhead.Config

	// Version is what the metadata client-version says, name/semver; empty sends
	// none.
	Version string
	// Idempotent tells of a method ("/package.Service/Method") whether it may be
	// executed twice; nil means Declared.
	Idempotent func(method string) bool
	// AutoKey gives every call that is not idempotent an idempotency-key, the same
	// for all attempts, unless it has one. Set it where the servers honour keys.
	AutoKey bool
	// Strict makes a call below a layer of this process that already repeats fail
	// with retry.ErrNested: for tests that look for such layers. A sender in another
	// process is none.
	Strict bool
	// Margin is what is kept of an inbound call's deadline for the way back, up to
	// a minute; 0 means client.DefaultMargin. See InboundUnary.
	Margin time.Duration

	// Limits tightens the policy of a destination and method from outside, as
	// package client/remote does. It is asked at the beginning of an operation and
	// after every attempt that failed, and must be quick; nil is none.
	Limits func(destination, method string) retry.Limits
	// Told is given the retry-policy metadata of an answer, before Limits is asked
	// again; nil ignores it. The value comes from the network: it may be anything.
	Told func(destination, policy string)

	// Rand returns numbers within [0, 1) for the waits, from many goroutines; nil
	// means the standard generator.
	Rand  func() float64
	Trace Trace
}

// Trace is a set of hooks; nil ones are not called. They are called from the
// goroutine of the call, and must not block. What they are good for is said at
// client.Trace.
type Trace struct {
	// Attempted is called after every attempt; for a stream that works, with its
	// first message.
	Attempted func(Attempt)
	// Finished is called once for every operation: for a stream, with the first
	// message or the error, but not for one that its caller leaves before.
	Finished func(retry.Report)
	// Replayed is called for an answer that the server had in store for its key.
	Replayed func(destination string)
	// Refused is called when the breaker or bulkhead of a destination lets an
	// attempt not pass.
	Refused func(destination string, err error)
	// TooOld is called once for a destination that takes no calls from this
	// version.
	TooOld func(destination, version string)
}

// Attempt is one call that went out.
type Attempt struct {
	Destination string
	Method      string // "/package.Service/Method"
	Version     string // what the client says it runs
	Number      int    // from 1
	Code        codes.Code
	Err         error // nil for codes.OK
	Took        time.Duration
}

func (c *Config) check() error {
	var problems []error
	bad := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("grpcclient: "+format, args...))
	}
	if c.Version != "" {
		if _, ok := comporta.ParseClientVersion(c.Version); !ok {
			bad("Version: %q is not name/semver; write it like acme-app/2.4.1", c.Version)
		}
	}
	if c.Margin < 0 || c.Margin > maxMargin {
		bad("Margin: %v is not within 0 and %v; give what an answer needs on its way back", c.Margin, maxMargin)
	}
	problems = append(problems, c.Policy.Check())
	if c.Breaker != nil {
		_, err := breaker.New(*c.Breaker)
		problems = append(problems, err)
	}
	if c.Bulkhead != nil {
		_, err := bulkhead.New(*c.Bulkhead)
		problems = append(problems, err)
		if c.Bulkhead.Limit == 0 {
			bad("Bulkhead.Limit: 0 lets no call pass; give the calls that a destination bears at once, or leave Bulkhead out")
		}
	}
	return errors.Join(problems...)
}

// orDefaults fills in what the zero values mean.
func (c *Config) orDefaults() {
	c.Policy = c.Policy.WithDefaults()
	if c.Margin == 0 {
		c.Margin = client.DefaultMargin
	}
	if c.Idempotent == nil {
		c.Idempotent = Declared
	}
}
