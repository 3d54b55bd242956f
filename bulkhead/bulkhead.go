package bulkhead

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrFull is what every refusal of a Bulkhead is, by errors.Is.
var ErrFull = errors.New("bulkhead: full")

// FullError is a refusal. It may be shared between callers and must not be changed.
type FullError struct {
	// Waited is how long the caller stood in the queue; 0 when it was refused at
	// once.
	Waited time.Duration
	// Cause is why its context ended; nil when the bulkhead refused of itself.
	Cause error
}

func (e *FullError) Error() string {
	switch {
	case e.Cause != nil:
		return fmt.Sprintf("bulkhead: gave up after %v: %v", e.Waited.Round(time.Millisecond), e.Cause)
	case e.Waited > 0:
		return fmt.Sprintf("bulkhead: full for %v", e.Waited.Round(time.Millisecond))
	}
	return "bulkhead: full"
}

// Is makes a FullError answer to ErrFull.
func (e *FullError) Is(target error) bool { return target == ErrFull }

// Unwrap returns the cause of the context's end.
func (e *FullError) Unwrap() error { return e.Cause }

// full is the refusal without a wait, which a flood of refused calls shares.
var full = &FullError{}

// Bulkhead caps the calls to one destination. The zero value admits nothing;
// make one with New. Its methods may be called from many goroutines.
type Bulkhead struct {
	config Config

	mu sync.Mutex // guards what follows; held for a few instructions
	// serials counts, per place, the permits that it has been: a permit whose
	// serial is no longer that of its place is over. It grows to the most calls
	// that were ever held at once.
	serials []uint64
	free    []uint32 // places that nobody holds; empty while anybody waits
	queue   queue
}

// Permit is the right to call. It is a value: copies are the same permit, and it
// is released once however many of them are. The zero Permit holds nothing.
// Its methods may be called from many goroutines.
type Permit struct {
	bulkhead *Bulkhead
	serial   uint64
	place    uint32
}

// TryAcquire returns a permit if one is free. It never waits.
func (b *Bulkhead) TryAcquire() (Permit, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.take()
}

// Acquire returns a permit that the caller owes a Release, or waits for one. The
// error is a *FullError: it answers to ErrFull, and also to the cause of ctx if
// that ended the wait. A context that has ended gets no permit.
func (b *Bulkhead) Acquire(ctx context.Context) (Permit, error) {
	if ctx.Err() != nil {
		return Permit{}, b.refuse(&FullError{Cause: context.Cause(ctx)})
	}
	b.mu.Lock()
	p, ok := b.take()
	if ok {
		b.mu.Unlock()
		return p, nil
	}
	// With a limit of 0 nobody would ever end the wait.
	if b.config.Limit == 0 || b.queue.len >= b.config.Queue {
		b.mu.Unlock()
		return Permit{}, b.refuse(full)
	}
	w := &waiter{ready: make(chan struct{})}
	b.queue.push(w)
	b.mu.Unlock()
	return b.wait(ctx, w)
}

// wait stands in the queue until a permit is handed over or patience ends.
func (b *Bulkhead) wait(ctx context.Context, w *waiter) (Permit, error) {
	since := time.Now()
	var over <-chan time.Time // nil, for ever, without MaxWait
	if b.config.MaxWait > 0 {
		timer := time.NewTimer(b.config.MaxWait)
		defer timer.Stop()
		over = timer.C
	}
	var cause error
	select {
	case <-w.ready:
	case <-over:
		b.leave(w)
	case <-ctx.Done():
		cause = context.Cause(ctx)
		b.leave(w)
	}
	// A permit may have been handed over in the same moment. It is used if the
	// caller is still there, and passed on if not; it is never lost.
	p := w.permit
	if cause != nil {
		p.Release()
		p = Permit{}
	}
	admitted, waited := p.bulkhead != nil, time.Since(since)
	if b.config.Trace.Waited != nil {
		b.config.Trace.Waited(waited, admitted)
	}
	if !admitted {
		return Permit{}, b.refuse(&FullError{Waited: waited, Cause: cause})
	}
	return p, nil
}

func (b *Bulkhead) refuse(e *FullError) error {
	if b.config.Trace.Refused != nil {
		b.config.Trace.Refused(e)
	}
	return e
}

// Release gives the permit back, whatever way the call ended. Only the first
// call does anything; released reports whether this was it.
func (p Permit) Release() (released bool) {
	b := p.bulkhead
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.serials[p.place] != p.serial {
		return false
	}
	b.serials[p.place]++
	if w := b.queue.pop(); w != nil {
		w.permit = b.permit(p.place)
		close(w.ready)
		return true
	}
	b.free = append(b.free, p.place)
	return true
}

// Held reports whether the permit has not been released yet.
func (p Permit) Held() bool {
	if p.bulkhead == nil {
		return false
	}
	p.bulkhead.mu.Lock()
	defer p.bulkhead.mu.Unlock()
	return p.bulkhead.serials[p.place] == p.serial
}

// take takes a free place, or makes one. b.mu is held. While anybody waits there
// is none of either, so nobody passes the queue by.
func (b *Bulkhead) take() (Permit, bool) {
	if n := len(b.free); n > 0 {
		place := b.free[n-1]
		b.free = b.free[:n-1]
		return b.permit(place), true
	}
	if len(b.serials) < b.config.Limit {
		b.serials = append(b.serials, 0)
		return b.permit(uint32(len(b.serials) - 1)), true
	}
	return Permit{}, false
}

// permit returns the present permit of a place. b.mu is held.
func (b *Bulkhead) permit(place uint32) Permit { return Permit{b, b.serials[place], place} }

// leave takes a waiter out of the queue, unless it has its permit already.
func (b *Bulkhead) leave(w *waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w.permit.bulkhead == nil {
		b.queue.remove(w)
	}
}

// Stats is a view of a Bulkhead for metrics and status pages.
type Stats struct {
	Limit    int
	InFlight int // permits held
	Waiting  int // callers in the queue: the metric client_pool_waiting
}

// Stats returns the present counts, all of one moment.
func (b *Bulkhead) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Stats{Limit: b.config.Limit, InFlight: len(b.serials) - len(b.free), Waiting: b.queue.len}
}
