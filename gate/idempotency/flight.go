package idempotency

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/comporta/comporta/store"
)

// flights are the keys whose calls run in this process, and those who stand by
// for a key wherever it runs. What runs here is known without the store, so that
// a flood of duplicates does not lean on it.
type flights struct {
	mu      sync.Mutex // guards what follows
	byName  map[store.Name]*flight
	waiters map[store.Name]int // none is 0
	waiting int                // the sum of waiters
	others  map[store.Name]other
	broken  map[store.Name]int64 // of calls that ended here in doubt
}

// other is what the store has just said of a call in another process.
type other struct {
	fingerprint []byte
	started     time.Time // zero: it broke off
	leased      time.Time // end of the lease
	until       time.Time // when the store is asked again
}

// maxOthers bounds what is remembered of other processes, and of calls in doubt;
// beyond it all is asked anew.
const maxOthers = 4096

func newFlights() flights {
	return flights{byName: map[store.Name]*flight{}, waiters: map[store.Name]int{}, others: map[store.Name]other{}, broken: map[store.Name]int64{}}
}

// flight is one key whose call runs here.
type flight struct {
	fingerprint []byte // of the claim
	started     time.Time
	leased      atomic.Int64  // Unix ns of the end of the lease
	done        chan struct{} // closed when the call has ended
	// Set before done is closed. Without answer and doubt the key is free.
	answer  *store.Record
	doubt   bool     // nobody knows what was done
	refusal *refusal // of a key that is free; nil: those who stand by may claim it
}

// refusal is an answer that says that nothing was done.
type refusal struct {
	answer store.Answer
	wait   time.Duration // 0: it does not say; below: never
}

func (fl *flight) leaseLeft(now time.Time) time.Duration {
	return time.Unix(0, fl.leased.Load()).Sub(now)
}

// errCrowded: too many stand by already.
var errCrowded = errors.New("idempotency: too many duplicates stand by")

// start makes a key known as running here.
func (f *flights) start(now time.Time, n store.Name, fingerprint []byte, lease time.Duration) *flight {
	fl := &flight{fingerprint: fingerprint, started: now, done: make(chan struct{})}
	fl.leased.Store(now.Add(lease).UnixNano())
	f.mu.Lock()
	defer f.mu.Unlock()
	f.byName[n] = fl
	return fl
}

// finish ends a flight and lets those who stand by go.
func (f *flights) finish(n store.Name, fl *flight, answer *store.Record, doubt bool) {
	fl.answer, fl.doubt = answer, doubt
	f.mu.Lock()
	if f.byName[n] == fl { // else its lease had ended, and another has taken it over
		delete(f.byName, n)
	}
	f.mu.Unlock()
	close(fl.done)
}

// forget makes a key known no more as running here, though its call has not ended.
func (f *flights) forget(n store.Name, fl *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byName[n] == fl {
		delete(f.byName, n)
	}
}

// find returns the flight of a key, nil if it does not run here.
func (f *flights) find(n *store.Name) *flight {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.byName[*n]
}

// breakOff remembers that a call has ended in doubt: its record runs until its lease
// ends, and nobody renews it.
func (f *flights) breakOff(h *store.Hold) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.broken) >= maxOthers {
		clear(f.broken)
	}
	f.broken[h.Name] = h.Fence
}

// note remembers that a key runs in another process, or would, had it not broken off
// here. It returns since when it runs; zero: it does not.
func (f *flights) note(now time.Time, r *store.Record) (started time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	started = r.Created
	if fence, ok := f.broken[r.Name]; ok && fence == r.Fence {
		started = time.Time{}
	}
	if len(f.others) >= maxOthers {
		clear(f.others)
	}
	f.others[r.Name] = other{r.Fingerprint, started, now.Add(r.LeaseLeft), now.Add(min(elsewhere, r.LeaseLeft))}
	return started
}

// otherAt returns what was just said of a key in another process.
func (f *flights) otherAt(now time.Time, n *store.Name) (o other, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if o, ok = f.others[*n]; ok && !now.Before(o.until) {
		delete(f.others, *n)
		return other{}, false
	}
	return o, ok
}

// join lets one more stand by for a key; nil: it does not run here.
func (f *flights) join(n store.Name) (*flight, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.waiters[n] >= MaxWaitersKey || f.waiting >= MaxWaiters {
		return nil, errCrowded
	}
	f.waiters[n]++
	f.waiting++
	return f.byName[n], nil
}

func (f *flights) leave(n store.Name) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting--
	if f.waiters[n]--; f.waiters[n] == 0 {
		delete(f.waiters, n)
	}
}

// elsewhere is how often a store is asked about a call in another process, whoever
// and however many want to know.
const elsewhere = 200 * time.Millisecond

// await stands by until the call has ended; nil: it does not run here, and it is
// time to ask the store again.
func (f *flights) await(ctx context.Context, n store.Name) (*flight, error) {
	fl, err := f.join(n)
	if err != nil {
		return nil, err
	}
	defer f.leave(n)
	if fl == nil {
		if !pause(ctx, elsewhere) {
			return nil, context.Cause(ctx)
		}
		return nil, nil //nolint:nilnil // as the comment says
	}
	select {
	case <-fl.done:
		return fl, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
