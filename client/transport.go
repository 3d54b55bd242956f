package client

import (
	"crypto/rand"
	"net/http"
	"strings"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/client/internal/operation"
	"github.com/comporta/comporta/client/retry"
)

// transport is next within the envelope.
type transport struct {
	client  *Client
	next    http.RoundTripper
	timeout time.Duration // of the http.Client around it, for all hops and the body; 0 is none
}

// RoundTrip makes the attempts of one operation. A response is returned whatever
// its status; an error is a *retry.Error. A request without a host (file:///…)
// reaches no server, and is handed down as it is.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL == nil || req.URL.Host == "" {
		return t.next.RoundTrip(req)
	}
	c := t.begin(req)
	resp, err := c.run()
	c.finish()
	if err != nil {
		return nil, &retry.Error{Report: c.report(), Err: err}
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
	c.readHeader(req)

	c.op.Deadline = c.began.Add(c.policy.Total)
	if callers, ok := ctx.Deadline(); ok {
		c.endBy(callers)
	}
	if t.timeout > 0 {
		c.endBy(c.began.Add(t.timeout))
	}
	if d := owner.Until(client.config.Margin); !d.IsZero() {
		c.endBy(d)
	}
	// A request that says which attempt it is comes from somebody who counts them.
	c.op.Nested = owner.Owned() || c.announced
	c.op.Replayable = req.Body == nil || req.Body == http.NoBody || req.GetBody != nil
	c.op.Budget = c.destination.budget
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
	switch req.Method {
	case "", http.MethodPut, http.MethodDelete:
		c.op.Idempotent = true
	default:
		c.op.Idempotent = comporta.SafeMethod(req.Method)
	}
	if !c.op.Idempotent {
		c.weigh(req)
	}
	if v := req.Header[comporta.HeaderRetryAttempt]; len(v) > 0 {
		c.announced, c.declared = true, int32(comporta.ParseAttempt(v[0], 0))
	} else if c.owner.Owned() {
		c.declared = int32(c.owner.Attempt)
	}
}

// weigh looks for what makes a request repeatable whose method is not.
func (c *call) weigh(req *http.Request) {
	c.risk = &risk{}
	keys := c.callersKeys()
	switch {
	case len(keys) == 1:
		_, c.op.Idempotent = comporta.ParseKey(keys[0])
	case len(keys) == 0 && c.transport.client.config.AutoKey:
		c.risk.minted, c.op.Idempotent = rand.Text(), true
	}
	if !c.op.Idempotent {
		c.risk.check, _ = req.Context().Value(checkKey{}).(Check)
		c.op.Checkable = c.risk.check != nil
	}
}

// callersKeys are the values of the caller's Idempotency-Key, however the name is
// written: a second key beside it would be another operation.
func (c *call) callersKeys() []string {
	h := c.caller.Header
	if keys := h[comporta.HeaderIdempotencyKey]; len(keys) > 0 {
		return keys
	}
	for name, keys := range h {
		if strings.EqualFold(name, comporta.HeaderIdempotencyKey) && len(keys) > 0 {
			return keys
		}
	}
	return nil
}

// minted is the key that AutoKey made; empty if it made none.
func (c *call) minted() string {
	if c.risk == nil {
		return ""
	}
	return c.risk.minted
}

// hasKey reports whether the server can tell a repeat by its Idempotency-Key.
func (c *call) hasKey() bool {
	if c.minted() != "" {
		return true
	}
	keys := c.callersKeys()
	if len(keys) != 1 {
		return false
	}
	_, ok := comporta.ParseKey(keys[0])
	return ok
}

// follow continues the operation that was redirected here: one Total for all
// hops, one key for the same method, and no more repeats than one hop may make.
func (c *call) follow(before *call) {
	if before == nil || before.transport != c.transport {
		return // a layer above: the context has its deadline
	}
	c.before = before
	c.endBy(before.op.Deadline)
	c.op.Attempts, c.op.Step = max(before.op.Attempts-1, 0), before.op.Step
	if c.minted() != "" && before.minted() != "" && c.caller.Method == before.caller.Method {
		c.risk.minted = before.risk.minted
	}
}

func (c *call) endBy(d time.Time) {
	if d.Before(c.op.Deadline) {
		c.op.Deadline = d
	}
}

// mark is what the layers below see.
func (c *call) mark() *operation.Mark {
	m := &operation.Mark{Owner: "client", Deadline: c.op.Deadline, Attempt: int(c.declared)}
	if c.owner != nil {
		m.Sender = c.owner.Sender
	}
	return m
}
