package client

import (
	"errors"
	"fmt"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/breaker"
	"github.com/comporta/comporta/bulkhead"
	"github.com/comporta/comporta/client/budget"
	"github.com/comporta/comporta/client/internal/operation"
	"github.com/comporta/comporta/client/retry"
)

// DefaultMargin is what Config.Margin means when it is 0.
const DefaultMargin = operation.DefaultMargin

const maxMargin = time.Minute

// Config says how a Client calls. The zero value is the default envelope,
// without breaker, bulkhead and hedging.
type Config struct {
	// Policy is the envelope: attempts, time, waits.
	Policy retry.Policy
	// Budget bounds the repeats to each destination.
	Budget budget.Config
	// Breaker and Bulkhead, if set, make one of each for every destination.
	Breaker  *breaker.Config
	Bulkhead *bulkhead.Config
	// Hedge sends a second request beside a slow first one.
	Hedge Hedge

	// Version is what the Client-Version header says, name/semver; empty sends
	// none.
	Version string
	// AutoKey gives every request that is not idempotent an Idempotency-Key, the
	// same for all attempts, unless it has one. Set it where the servers honour
	// keys: it makes a POST repeatable.
	AutoKey bool
	// Streaming lets a response's body flow for as long as the caller's context
	// does: Policy.Total then bounds the way to the response's head only. Without
	// it the body has to end within Total too.
	Streaming bool
	// Strict makes a call below a layer of this process that already repeats fail
	// with retry.ErrNested: for tests that look for such layers. A sender in another
	// process is none.
	Strict bool
	// Margin is what is kept of an inbound request's deadline for the way back,
	// up to a minute; 0 means 50 ms. See Inbound.
	Margin time.Duration

	// Limits tightens the policy of a destination (a host) and path from outside,
	// as package client/remote does. It is asked at the beginning of an operation
	// and after every attempt that failed, and must be quick; nil is none.
	Limits func(destination, path string) retry.Limits
	// Told is given the Retry-Policy header of a response, before Limits is asked
	// again; nil ignores it. The value comes from the network: it may be anything.
	Told func(destination, policy string)

	// Rand returns numbers within [0, 1) for the waits, from many goroutines; nil
	// means the standard generator.
	Rand  func() float64
	Trace Trace
}

// Hedge is a second request sent beside a first one that has not answered yet.
// Only idempotent requests whose body can be sent again are hedged, each hedge
// is paid from the budget and counts as an attempt, and the answer that comes
// first is taken; the other request is cancelled. If both fail, what the server
// said to either counts. A hedge never waits for a place in the bulkhead.
type Hedge struct {
	// After is the time without an answer; 0 hedges nothing. The 95th percentile
	// of the latency is a good value: below it most hedges are in vain.
	After time.Duration
}

// Trace is a set of hooks; nil ones are not called. They are called from the
// goroutine of the call, those of a hedged attempt from their own, and must not
// block. Together they are what is worth watching of a client that repeats:
//
//   - attempts per call, success after the first repeat, time spent on waits and
//     repeats, repeats by destination and version: Finished
//   - 429 and 503 apart from other failures: Attempted
//   - duplicates that an idempotency key caught: Replayed
//   - pools and bulkheads run dry: Refused, with Bulkhead.Trace for the waiting
type Trace struct {
	// Attempted is called after every attempt, hedges included.
	Attempted func(Attempt)
	// Finished is called once for every operation; for one that is redirected, once
	// for each hop, with that hop's part. Report tells of the whole.
	Finished func(retry.Report)
	// Replayed is called for a response that the server had in store for its key.
	Replayed func(destination string)
	// Refused is called when the breaker or bulkhead of a destination lets an
	// attempt not pass.
	Refused func(destination string, err error)
	// NestedSuspected is called when the same request comes again in a context in
	// which it has just failed: something above repeats it, and does not say so.
	NestedSuspected func(destination string)
	// TooOld is called once for a destination that takes no calls from this
	// version.
	TooOld func(destination, version string)
}

// Attempt is one call that went out.
type Attempt struct {
	Destination string
	Version     string // what the client says it runs
	Number      int    // from 1, over all hops of a redirect
	Hedge       bool   // ran beside another
	Status      int    // 0 when there was no response
	Err         error  // nil when there was one
	Took        time.Duration
}

func (c *Config) check() error {
	var problems []error
	bad := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("client: "+format, args...))
	}
	if c.Version != "" {
		if _, ok := comporta.ParseClientVersion(c.Version); !ok {
			bad("Version: %q is not name/semver; write it like acme-app/2.4.1", c.Version)
		}
	}
	if c.Margin < 0 || c.Margin > maxMargin {
		bad("Margin: %v is not within 0 and %v; give what an answer needs on its way back", c.Margin, maxMargin)
	}
	total := c.Policy.WithDefaults().Total
	if c.Hedge.After < 0 || (c.Hedge.After > 0 && c.Hedge.After >= total) {
		bad("Hedge.After: %v is not within 0 and Policy.Total (%v); give the latency that most calls stay below", c.Hedge.After, total)
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
