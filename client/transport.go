package client

import (
	"crypto/rand"
	"errors"
	"net/http"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/client/internal/operation"
	"github.com/comporta/comporta/client/retry"
)

// transport is next within the envelope.
type transport struct {
	client *Client
	next   http.RoundTripper
}

var errNoHost = errors.New("client: the request names no host")

// RoundTrip makes the attempts of one operation. A response is returned whatever
// its status; an error is a *retry.Error.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL == nil || req.URL.Host == "" {
		closeBody(req)
		return nil, errNoHost
	}
	c := t.begin(req)
	resp, err := c.run()
	c.finish()
	if err != nil {
		return nil, &retry.Error{Report: c.report, Err: err}
	}
	return resp, nil
}

// CloseIdleConnections passes on what http.Client.CloseIdleConnections asks.
func (t *transport) CloseIdleConnections() {
	if next, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		next.CloseIdleConnections()
	}
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close() // nobody is left to hear of it
	}
}

// begin reads a request: who owns the operation, what it may do, how long it has.
func (t *transport) begin(req *http.Request) *call {
	client := t.client
	ctx := req.Context()
	owner := operation.Of(ctx)
	c := &call{transport: t, caller: req, began: time.Now(), version: client.version.Load(), owner: owner}
	c.destination = client.destinations.of(req.URL.Host)
	c.policy = client.policy(c.destination.name, req.URL.Path)
	c.report.Destination, c.report.Version = c.destination.name, *c.version
	c.readHeader(req)

	c.op.Deadline = c.began.Add(c.policy.Total)
	if callers, ok := ctx.Deadline(); ok {
		c.endBy(callers)
	}
	if d := owner.Until(client.config.Margin); !d.IsZero() {
		c.endBy(d)
	}
	// A request that says which attempt it is comes from somebody who counts them.
	c.op.Nested = owner.Owned() || c.announced
	c.report.Nested = c.op.Nested
	c.op.Replayable = req.Body == nil || req.Body == http.NoBody || req.GetBody != nil
	c.op.Budget = c.destination.budget
	c.mark = operation.Mark{Owner: "client", Deadline: c.op.Deadline, Attempt: c.declared}
	if owner != nil {
		c.mark.Sender = owner.Sender
	}
	if req.Response != nil {
		c.follow(callOf(req.Response))
	}
	if client.suspects.any(c.began) && client.suspects.seenAt(c.began, req) && client.config.Trace.NestedSuspected != nil {
		client.config.Trace.NestedSuspected(c.destination.name)
	}
	return c
}

// readHeader reads what the caller's header says of the operation.
func (c *call) readHeader(req *http.Request) {
	h := req.Header
	switch req.Method {
	case "", http.MethodPut, http.MethodDelete:
		c.op.Idempotent = true
	default:
		c.op.Idempotent = comporta.SafeMethod(req.Method)
	}
	if !c.op.Idempotent {
		if c.transport.client.config.AutoKey && !has(h, comporta.HeaderIdempotencyKey) {
			c.minted = rand.Text()
		}
		c.op.Idempotent = c.hasKey()
	}
	if v := h[comporta.HeaderRetryAttempt]; len(v) > 0 {
		c.announced, c.declared = true, comporta.ParseAttempt(v[0], 0)
	} else if c.owner.Owned() {
		c.declared = c.owner.Attempt
	}
	if !c.op.Idempotent {
		c.check, _ = req.Context().Value(checkKey{}).(Check)
		c.op.Checkable = c.check != nil
	}
}

// hasKey reports whether the server can tell a repeat by its Idempotency-Key.
func (c *call) hasKey() bool {
	if c.minted != "" {
		return true
	}
	keys := c.caller.Header[comporta.HeaderIdempotencyKey]
	if len(keys) != 1 {
		return false
	}
	_, ok := comporta.ParseKey(keys[0])
	return ok
}

// follow continues the operation that was redirected here: one Total for all
// hops, and one key for the same method.
func (c *call) follow(before *call) {
	if before == nil {
		return
	}
	c.endBy(before.op.Deadline)
	c.mark.Deadline = c.op.Deadline
	if c.minted != "" && before.minted != "" && c.caller.Method == before.caller.Method {
		c.minted = before.minted
	}
}

func (c *call) endBy(d time.Time) {
	if d.Before(c.op.Deadline) {
		c.op.Deadline = d
	}
}
