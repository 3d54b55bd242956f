package ratelimit

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// queue is the callers that stand in Wait, in the order of their turns.
type queue struct {
	mu      sync.Mutex
	room    int
	waiting int
	lines   map[uint64][]*waiter // by key; no empty ones
}

type waiter struct {
	turn  time.Time
	moved chan struct{} // holds one: the turn has come nearer
}

// Wait takes n units for key, and waits for them at most maxWait in all, and no
// longer than ctx. Callers of one key are served in the order in which they came.
//
// Who would have to wait longer is refused at once and takes nothing: the error
// is a *TooLongError. When ctx ends first, its cause is returned, nothing is
// taken, and those behind move up. Other errors: ErrNever, ErrTooManyWait,
// ErrNegativeCost, ErrEmptyKey.
func (b *Bucket) Wait(ctx context.Context, key string, n int64, maxWait time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	now := b.now()
	if deadline, ok := ctx.Deadline(); ok {
		maxWait = min(maxWait, deadline.Sub(now))
	}
	r, w, err := b.enqueue(now, key, n, maxWait)
	if err != nil || w == nil {
		return err
	}
	timer := time.NewTimer(r.Wait)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			b.leave(r.name, w)
			return nil
		case <-w.moved:
			timer.Reset(max(b.turn(w).Sub(b.now()), 0))
		case <-ctx.Done():
			b.abandon(b.now(), &r, w)
			return context.Cause(ctx)
		}
	}
}

// enqueue reserves; the waiter is nil when there is nothing to wait for.
func (b *Bucket) enqueue(now time.Time, key string, n int64, maxWait time.Duration) (Reservation, *waiter, error) {
	q := &b.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting >= q.room {
		maxWait = 0 // what needs no wait is served all the same
	}
	r, err := b.ReserveAt(now, key, n, maxWait)
	switch {
	case errors.Is(err, ErrTooLong) && q.waiting >= q.room:
		return r, nil, ErrTooManyWait
	case err != nil || r.Wait == 0:
		return r, nil, err
	}
	w := &waiter{turn: now.Add(r.Wait), moved: make(chan struct{}, 1)}
	if q.lines == nil {
		q.lines = map[uint64][]*waiter{}
	}
	q.lines[r.name] = append(q.lines[r.name], w)
	q.waiting++
	return r, w, nil
}

func (b *Bucket) turn(w *waiter) time.Time {
	b.queue.mu.Lock()
	defer b.queue.mu.Unlock()
	return w.turn
}

// leave takes a waiter out of its line.
func (b *Bucket) leave(name uint64, w *waiter) {
	b.queue.mu.Lock()
	defer b.queue.mu.Unlock()
	b.queue.remove(name, w)
}

// remove returns those who stood behind w.
func (q *queue) remove(name uint64, w *waiter) []*waiter {
	line := q.lines[name]
	i := slices.Index(line, w)
	if i < 0 {
		return nil
	}
	q.waiting--
	line = slices.Delete(line, i, i+1)
	if len(line) == 0 {
		delete(q.lines, name)
		return nil
	}
	q.lines[name] = line
	return line[i:]
}

// abandon gives the units back, and to those behind the turns that they now have.
func (b *Bucket) abandon(now time.Time, r *Reservation, w *waiter) {
	b.queue.mu.Lock()
	defer b.queue.mu.Unlock()
	units := r.units
	r.giveBack(now)
	nearer := b.policy.gcra.earlier(units)
	for _, behind := range b.queue.remove(r.name, w) {
		behind.turn = behind.turn.Add(-nearer)
		select {
		case behind.moved <- struct{}{}:
		default: // a sign is already up
		}
	}
}

// earlier is the time of n units rounded down, so that nobody moves up too far.
func (p *plan) earlier(n int64) time.Duration {
	return micros(uint64(p.cost(n) >> fracBits))
}
