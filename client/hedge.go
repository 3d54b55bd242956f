package client

import (
	"errors"
	"time"
)

// errHedged is why the slower one of two attempts was cancelled.
var errHedged = errors.New("client: another attempt answered first")

// hedges reports whether the attempt that is about to be made may get another
// one at its side: only the first, which is not a repeat yet.
func (c *call) hedges() bool {
	return c.transport.client.config.Hedge.After > 0 && c.op.Attempts == 1 && c.policy.MaxAttempts > 1 &&
		c.op.Idempotent && c.op.Replayable && !c.op.Nested
}

// race sends first, and a second attempt if that has no answer in time and the
// budget pays for it. It returns the one that counts: the first good answer, or
// the last bad one. The other ends by its context, in its own goroutine.
func (c *call) race(first *attempt) *attempt {
	arrived := make(chan *attempt)
	decided := make(chan struct{})
	defer close(decided)
	launch := func(a *attempt) {
		go func() {
			a.roundTrip()
			select {
			case arrived <- a:
			case <-decided:
				a.discard()
			}
		}()
	}
	launch(first)
	timer := time.NewTimer(c.transport.client.config.Hedge.After)
	defer timer.Stop()
	select {
	case a := <-arrived:
		return a
	case <-timer.C:
	}
	second := c.second()
	if second == nil {
		return <-arrived
	}
	launch(second)
	a := <-arrived
	other := first
	if a == first {
		other = second
	}
	if a.decisive() {
		other.context.end(errHedged)
		return a
	}
	b := <-arrived
	a.discard()
	return b
}

// second prepares the hedge; nil if there is no time, body or budget for it.
func (c *call) second() *attempt {
	now := time.Now()
	share := c.policy.AttemptAt(now, &c.op)
	if share < c.policy.MinAttempt || c.caller.Context().Err() != nil {
		return nil
	}
	body := c.caller.Body
	if c.caller.GetBody != nil {
		var err error
		if body, err = c.caller.GetBody(); err != nil {
			return nil
		}
	}
	if !c.op.Budget.Withdraw() {
		if body != nil {
			_ = body.Close() // it was never sent
		}
		return nil
	}
	c.op.Attempts++
	c.report.Hedges++
	a := &attempt{hedge: true}
	a.prepare(c, c.op.Attempts, now, share, body)
	return a
}

// decisive reports whether an attempt brought an answer that another one would
// not better.
func (a *attempt) decisive() bool {
	return a.resp != nil && a.resp.StatusCode < 500 && a.resp.StatusCode != 429 && a.resp.StatusCode != 408
}
