package client

import (
	"errors"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/breaker"
	"github.com/comporta/comporta/client/retry"
)

// errHedged is why the slower one of two attempts was cancelled.
var errHedged = errors.New("client: another attempt answered first")

// mayHedge reports whether the attempt that goes out may get another one at its
// side: only the first, which is not a repeat yet.
func (c *call) mayHedge() bool {
	return c.transport.client.config.Hedge.After > 0 && c.op.Attempts == 1 && c.policy.MaxAttempts > 1 &&
		c.op.Idempotent && c.op.Replayable && !c.op.Nested
}

// race sends first, and a second attempt if that has no answer in time. It
// returns the one that counts, and what it left behind: the first good answer, or
// of two bad ones what they say together. The other ends by its context, in its
// own goroutine.
func (c *call) race(first *attempt, pass breaker.Permit) (*attempt, retry.Sign) {
	arrived := make(chan *attempt)
	decided := make(chan struct{})
	defer close(decided)
	launch := func(a *attempt, pass breaker.Permit) {
		go func() {
			a.roundTrip(pass)
			select {
			case arrived <- a:
			case <-decided:
				a.discard()
			}
		}()
	}
	launch(first, pass)
	timer := time.NewTimer(c.transport.client.config.Hedge.After)
	defer timer.Stop()
	select {
	case a := <-arrived:
		return a, c.read(a)
	case <-timer.C:
	}
	second, pass := c.second()
	if second == nil {
		a := <-arrived
		return a, c.read(a)
	}
	launch(second, pass)
	a := <-arrived
	if a.decisive() {
		other := first
		if a == first {
			other = second
		}
		other.context.end(errHedged)
		return a, c.read(a)
	}
	return c.together(a, <-arrived)
}

// second prepares the hedge; nil if there is no time for it, if something local
// holds it back, or if the budget does not pay for it.
func (c *call) second() (*attempt, breaker.Permit) {
	now := time.Now()
	share := c.policy.AttemptAt(now, &c.op)
	if share < c.policy.MinAttempt || c.caller.Context().Err() != nil {
		return nil, breaker.Permit{}
	}
	a := &attempt{hedge: true}
	a.prepare(c, now, share, nil)
	pass, entered := a.enter(now)
	if !entered {
		return nil, breaker.Permit{}
	}
	if a.paid = c.op.Budget.Withdraw(); a.paid {
		var err error
		if a.req.Body, err = c.again(); err == nil {
			a.goes()
			c.hedges++
			return a, pass
		}
		c.op.Budget.Refund()
	}
	pass.DoneAt(now, comporta.Outcome{Result: comporta.ResultAbandoned})
	a.end(errHedged)
	return nil, breaker.Permit{}
}

// decisive reports whether an attempt brought an answer that another one would
// not better.
func (a *attempt) decisive() bool {
	return a.resp != nil && a.resp.StatusCode < 500 && a.resp.StatusCode != 429 && a.resp.StatusCode != 408
}

// together weighs a, which failed, against b, which came after it. A good answer
// is the answer. Of two bad ones the server's word holds, whichever brought it:
// one stop is enough, and the longer wait counts. The one that is handed on is
// that with the word, or with an answer at all, or the later.
func (c *call) together(a, b *attempt) (*attempt, retry.Sign) {
	if b.decisive() {
		if a.resp != nil {
			c.hear(a.resp.Header)
		}
		a.discard()
		return b, c.read(b)
	}
	s, t := c.read(a), c.read(b)
	if s.Wait > t.Wait {
		c.troubled().ticket = ticketOf(a.resp.Header)
	}
	kept, other := b, a
	if weightier(a, s, b, t) {
		kept, other = a, b
	}
	c.status = 0
	if kept.resp != nil {
		c.status = int32(kept.resp.StatusCode)
	}
	other.discard()
	return kept, merged(s, t)
}

// weightier reports whether a is to be handed on, and not b, which came later.
func weightier(a *attempt, s retry.Sign, b *attempt, t retry.Sign) bool {
	switch {
	case (a.resp == nil) != (b.resp == nil):
		return a.resp != nil
	case s.Stop != t.Stop:
		return s.Stop
	}
	return s.Wait > t.Wait
}

// merged is what two failures say together.
func merged(s, t retry.Sign) retry.Sign {
	m := t
	if s.Stop && !t.Stop {
		m.Stop, m.Reason = true, s.Reason
	}
	if s.Wait > t.Wait {
		m.Wait, m.Spread = s.Wait, s.Spread
	}
	m.Retryable = (s.Retryable || s.Again) && (t.Retryable || t.Again)
	m.Again = m.Retryable && (s.Again || t.Again)
	m.Untouched = s.Untouched && t.Untouched
	return m
}
