package client

import (
	"net/http"
	"slices"
	"time"

	"github.com/comporta/comporta/client/retry"
)

// Report tells how a response that came through a Client came about, over all
// hops if it was redirected. It is the zero Report for any other response.
func Report(resp *http.Response) retry.Report {
	if c := callOf(resp); c != nil {
		return c.report()
	}
	return retry.Report{}
}

// callOf finds the operation that a response ended; nil when there was none.
func callOf(resp *http.Response) *call {
	if resp == nil || resp.Request == nil {
		return nil
	}
	c, _ := resp.Request.Context().Value(callKey{}).(*call)
	return c
}

// callKey finds the innermost call among a context's values.
type callKey struct{}

// finish notes how long the operation took, and tells of it.
func (c *call) finish() {
	c.took = c.firstTook
	if c.attempts != 1 || c.trouble != nil {
		c.took = c.since()
	}
	if trace := c.transport.client.config.Trace.Finished; trace != nil {
		trace(c.part())
	}
}

// part is the report of this hop.
func (c *call) part() retry.Report {
	r := retry.Report{
		Destination: c.destination.name, Version: c.version[0],
		Attempts: int(c.attempts), Hedges: int(c.hedges),
		Elapsed: c.took, Status: int(c.status), Reason: c.reason, Nested: c.op.Nested,
	}
	if c.attempts > 1 {
		r.Repeating = c.took - c.firstTook
	}
	if t := c.trouble; t != nil {
		r.Waits, r.RetryAt = slices.Clip(t.waits), t.retryAt
	}
	return r
}

// report is that of all hops up to this one.
func (c *call) report() retry.Report {
	r := c.part()
	if c.before == nil {
		return r
	}
	b := c.before.report()
	r.Attempts += b.Attempts
	r.Hedges += b.Hedges
	r.Repeating += b.Repeating
	r.Waits = append(b.Waits, r.Waits...)
	r.Elapsed += c.began.Sub(c.chainBegan())
	if r.RetryAt.IsZero() {
		r.RetryAt = b.RetryAt
	}
	return r
}

// chainBegan is when the first hop began.
func (c *call) chainBegan() time.Time {
	for c.before != nil {
		c = c.before
	}
	return c.began
}
