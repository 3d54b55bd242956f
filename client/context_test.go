package client

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/comporta/comporta/client/internal/operation"
	"github.com/comporta/comporta/client/retry"
)

type someKey struct{}

func attemptIn(parent context.Context, d time.Duration) *attemptContext {
	caller := (&http.Request{}).WithContext(parent)
	return &attemptContext{call: &call{caller: caller, began: time.Now()}, until: d}
}

func TestContextEndsAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := attemptIn(context.WithValue(t.Context(), someKey{}, 7), time.Second)
		child, cancel := context.WithCancel(c)
		defer cancel()
		if d, ok := c.Deadline(); !ok || time.Until(d) != time.Second {
			t.Errorf("deadline in %v", time.Until(d))
		}
		if c.Value(someKey{}) != 7 || child.Value(someKey{}) != 7 || operation.Of(child).Owner != "client" {
			t.Error("values got lost")
		}
		start := time.Now()
		<-child.Done()
		if time.Since(start) != time.Second || !errors.Is(c.Err(), context.DeadlineExceeded) || !c.timedOut() {
			t.Errorf("after %v: %v", time.Since(start), c.Err())
		}
		if !errors.Is(context.Cause(c), retry.ErrAttemptTimeout) || !errors.Is(context.Cause(child), retry.ErrAttemptTimeout) {
			t.Errorf("causes %v and %v", context.Cause(c), context.Cause(child))
		}
		c.end(context.Canceled)
	})
}

// Nobody has to wait for it to know its deadline.
func TestContextErrWithoutWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := attemptIn(t.Context(), time.Second)
		if c.Err() != nil {
			t.Error(c.Err())
		}
		<-time.After(time.Second)
		if !errors.Is(c.Err(), context.DeadlineExceeded) {
			t.Error(c.Err())
		}
		ended := attemptIn(t.Context(), time.Second)
		ended.end(context.Canceled)
		if !errors.Is(ended.Err(), context.Canceled) {
			t.Error(ended.Err())
		}
		<-ended.Done()
	})
}

func TestContextMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, waited := range []bool{false, true} {
			c := attemptIn(t.Context(), time.Second)
			if waited {
				c.Done()
			}
			if !c.move(c.call.since() + time.Minute) {
				t.Fatal("could not be moved")
			}
			start := time.Now()
			<-c.Done()
			if time.Since(start) != time.Minute {
				t.Errorf("ended after %v", time.Since(start))
			}
			if c.move(c.call.since() + time.Minute) {
				t.Error("moved after its end")
			}
			c.end(context.Canceled)
		}
		c := attemptIn(t.Context(), time.Second)
		c.Done()
		c.move(0)
		<-time.After(time.Hour)
		if c.Err() != nil {
			t.Error("ended without a deadline")
		}
		if _, ok := c.Deadline(); ok {
			t.Error("has a deadline")
		}
		c.move(c.call.since() + time.Second)
		<-c.Done()
	})
}

// cases/client.md A18: an attempt that ended leaves no timer behind, which would
// hold everything that belongs to it until its hour comes.
func TestCase_Client_A18_TimersAreStopped(t *testing.T) {
	waiting := make([]weak.Pointer[waitingContext], 100)
	for i := range waiting {
		c := attemptIn(t.Context(), time.Hour)
		c.Done()
		if i%2 == 0 {
			c.move(2 * time.Hour)
		}
		waiting[i] = weak.Make(c.waiting.Load())
		c.end(context.Canceled)
	}
	runtime.GC() //nolint:revive // what it leaves is what is asked
	held := 0
	for _, w := range waiting {
		if w.Value() != nil {
			held++
		}
	}
	if held > len(waiting)/2 { // the runtime clears stopped timers away by the dozen
		t.Errorf("%d of %d attempts are still held", held, len(waiting))
	}
}

func TestContextEndsWithItsParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("why")
		parent, cancel := context.WithCancelCause(t.Context())
		c := attemptIn(parent, time.Hour)
		called := make(chan struct{})
		context.AfterFunc(c, func() { close(called) })
		cancel(why)
		<-called
		if !errors.Is(c.Err(), context.Canceled) || !errors.Is(context.Cause(c), why) || c.timedOut() {
			t.Errorf("%v, cause %v", c.Err(), context.Cause(c))
		}
		unseen := attemptIn(parent, time.Hour)
		if !errors.Is(unseen.Err(), context.Canceled) {
			t.Errorf("%v", unseen.Err())
		}
		soon, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		later := attemptIn(soon, time.Hour)
		if d, ok := later.Deadline(); !ok || time.Until(d) != time.Second {
			t.Error("the parent's deadline is not seen")
		}
		<-later.Done()
		if !errors.Is(later.Err(), context.DeadlineExceeded) || later.timedOut() {
			t.Errorf("%v, timed out %t", later.Err(), later.timedOut())
		}
	})
}

// A derived context finds its parent without a goroutine, and leaves nothing.
func TestContextChildrenCostNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := attemptIn(t.Context(), time.Hour)
		before := runtime.NumGoroutine()
		children := make([]context.CancelFunc, 1000)
		for i := range children {
			_, children[i] = context.WithCancel(c)
		}
		if after := runtime.NumGoroutine(); after > before {
			t.Errorf("%d goroutines for %d children", after-before, len(children))
		}
		for _, cancel := range children {
			cancel()
		}
		c.end(context.Canceled)
	})
}

func TestContextFromManySides(t *testing.T) {
	for range 200 {
		parent, cancel := context.WithCancel(t.Context())
		c := attemptIn(parent, time.Millisecond)
		var wg sync.WaitGroup
		wg.Go(func() { <-c.Done() })
		wg.Go(func() { _ = c.Err(); c.Deadline() })
		wg.Go(func() { c.move(c.call.since() + time.Millisecond) })
		wg.Go(func() { c.Value(someKey{}); c.timedOut() })
		wg.Go(func() { c.end(errHedged) })
		wg.Go(cancel)
		wg.Wait()
		if c.Err() == nil {
			t.Fatal("still running")
		}
	}
}
