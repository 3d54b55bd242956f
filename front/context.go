package front

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"
)

// requestContext is the context of one request after another. It costs nothing
// until somebody asks for its end. Contexts derived from it hear of that end
// through AfterFunc, for which package context looks, and need no goroutine.
type requestContext struct {
	base context.Context //nolint:containedctx // what a context is made of
	c    *conn

	mu    sync.Mutex
	done  chan struct{} // nil until somebody asks
	err   error
	calls []*afterCall
}

// afterCall is a function that waits for the end of a request.
type afterCall struct {
	r *requestContext
	f func()
}

// begin makes r the context of a new request on c.
func (r *requestContext) begin(c *conn) {
	r.mu.Lock()
	r.c, r.done, r.err = c, nil, nil
	r.mu.Unlock()
}

// cancel ends the request's context, once.
func (r *requestContext) cancel() {
	r.mu.Lock()
	if r.err != nil {
		r.mu.Unlock()
		return
	}
	r.err = context.Canceled
	calls := r.calls
	r.calls = nil
	if r.done != nil {
		close(r.done)
	}
	r.mu.Unlock()
	for _, call := range calls {
		call.f()
	}
}

// Deadline implements context.Context.
func (r *requestContext) Deadline() (deadline time.Time, ok bool) { return r.base.Deadline() }

// Done implements context.Context.
func (r *requestContext) Done() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done == nil {
		r.done = make(chan struct{})
		if r.err != nil {
			close(r.done)
		}
	}
	return r.done
}

// Err implements context.Context.
func (r *requestContext) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Value implements context.Context.
func (r *requestContext) Value(key any) any {
	if key == http.LocalAddrContextKey {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.c.link.conn.LocalAddr()
	}
	return r.base.Value(key)
}

// AfterFunc calls f when the request ends, unless stop is called before. Package
// context uses it in place of a goroutine; f must return soon.
func (r *requestContext) AfterFunc(f func()) (stop func() bool) {
	call := &afterCall{r, f}
	r.mu.Lock()
	if r.err == nil {
		r.calls = append(r.calls, call)
		r.mu.Unlock()
		return call.stop
	}
	r.mu.Unlock()
	f()
	return call.stop
}

func (a *afterCall) stop() bool {
	a.r.mu.Lock()
	defer a.r.mu.Unlock()
	i := slices.Index(a.r.calls, a)
	if i < 0 {
		return false
	}
	a.r.calls = slices.Delete(a.r.calls, i, i+1)
	return true
}
