package redislimit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// ErrUnavailable is what every *UnavailableError is, by errors.Is.
var ErrUnavailable = errors.New("redislimit: Redis cannot answer")

// UnavailableError says why nothing is known: the debits of the call may have
// been charged or not.
type UnavailableError struct {
	Cause error // what the client said; nil when Redis was not asked
	// RetryAfter is when it makes sense to ask again; 0: unknown.
	RetryAfter time.Duration
}

// Error implements error.
func (e *UnavailableError) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("%v: %v", ErrUnavailable, e.Cause)
	}
	return ErrUnavailable.Error()
}

// Is makes errors.Is(err, ErrUnavailable) true.
func (*UnavailableError) Is(target error) bool { return target == ErrUnavailable }

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Cause }

// The causes that are ours.
var (
	errTimeout = &UnavailableError{Cause: errors.New("no answer in time")}
	errBusy    = &UnavailableError{Cause: errors.New("too many calls wait already")}
	errClosed  = &UnavailableError{Cause: errors.New("the store is closed")}
)

// question is one call's business in one lane. It belongs to the caller until it
// is queued, then to the flight, and to the caller again once done has spoken.
type question struct {
	items  []item
	settle bool  // one item; its cost is charged, or given back when negative
	refund *name // what remembers a refund; nil: nothing
	now    int64 // microseconds by the caller's clock
	state  atomic.Int32
	done   chan error // nil: nobody waits
	room   [4]item
}

// item is what is asked about one key, and the answer.
type item struct {
	meter *meter
	name  uint64
	wire  name
	cost  int64
	want  int64 // units to lease besides

	ok    bool
	lease int64
	debt  int64 // ticks
}

// The states of a question.
const (
	waiting   = iota
	flying    // it may have been sent
	abandoned // its caller left before that
)

// lane is the queue of one part of the key space. Its questions reach Redis in
// the order in which they came.
type lane struct {
	number int
	mu     sync.Mutex
	queue  []*question
	spare  []*question // the last batch's array
	busy   bool        // a flight is under way
	closed bool
	batch  batch // of the flight
}

func (l *lane) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

// enqueue queues a question, and starts a flight when none is under way. Nothing
// waits for a batch to fill: the first question flies alone, and what comes
// meanwhile flies next, together.
func (s *Store) enqueue(l *lane, q *question) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return errClosed
	case len(l.queue) >= s.config.Queue:
		s.tally.busy.Add(1)
		return errBusy
	}
	l.queue = append(l.queue, q)
	if !l.busy {
		l.busy = true
		s.flights.Go(func() { s.fly(l) })
	}
	return nil
}

// next takes what queued since the last flight, up to a number of items. An empty
// batch ends the flights.
func (l *lane) next(most int) []*question {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for items := 0; n < len(l.queue); n++ {
		if items += len(l.queue[n].items); items > most && n > 0 {
			break
		}
	}
	if n == 0 {
		l.busy = false
		return nil
	}
	l.spare = append(l.spare[:0], l.queue[:n]...)
	rest := copy(l.queue, l.queue[n:])
	clear(l.queue[rest:])
	l.queue = l.queue[:rest]
	return l.spare
}

// maxBatch bounds the items of one script, and so how long it keeps the server
// from others: about a millisecond. It is far below what Lua can unpack.
const maxBatch = 256

// fly makes round trips until nothing is queued.
func (s *Store) fly(l *lane) {
	for {
		questions := l.next(maxBatch)
		if questions == nil {
			return
		}
		s.trip(l, questions)
		clear(questions)
	}
}

// wait waits for the answer at most for the budget, and no longer than ctx. A
// question that was not sent by then is withdrawn.
func (s *Store) wait(ctx context.Context, q *question) error {
	budget := timers.Get().(*time.Timer) //nolint:errcheck,forcetypeassert // the pool holds nothing else
	budget.Reset(s.config.Timeout)
	defer func() {
		budget.Stop()
		timers.Put(budget)
	}()
	var err error
	select {
	case err = <-q.done:
		return err
	case <-budget.C:
		err = errTimeout
	case <-ctx.Done():
		err = &UnavailableError{Cause: context.Cause(ctx)}
	}
	s.tally.late.Add(1)
	if q.state.CompareAndSwap(waiting, abandoned) {
		s.release(q)
	}
	return err
}

var timers = sync.Pool{New: func() any {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}}
