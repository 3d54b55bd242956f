package idempotency

import (
	"context"
	"sync"
	"time"

	"github.com/comporta/comporta/store"
)

// recent holds the records of keys that were finished or looked at last, in memory
// that does not grow: a wave of repeats is answered from it, and does not lean on
// the store. What is finished stays as it is until its time is over, or until a
// person releases it.
type recent struct {
	room int           // bytes
	hold time.Duration // how long a record is believed without asking the store again

	mu      sync.Mutex // guards what follows
	records map[store.Name]*held
	oldest  *held // the end of a list in the order of arrival
	newest  *held
	bytes   int
	epoch   uint64 // of the latest release
}

// held is a record in memory. Nobody changes it.
type held struct {
	record *store.Record
	until  time.Time
	next   *held // the one that came after it
}

const (
	// sharedHold is how long the others may go on replaying what was released on one
	// of several gateways.
	sharedHold = 5 * time.Second
	// overhead is what a record takes beside its answer, about.
	overhead = 512
)

func newRecent(room int, hold time.Duration) *recent {
	return &recent{room: room, hold: hold, records: map[store.Name]*held{}}
}

// getAt returns the record of a finished key; nil: the store has to be asked. With
// it comes the epoch in which it is asked.
func (x *recent) getAt(now time.Time, n *store.Name) (*store.Record, uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if h := x.records[*n]; h != nil && now.Before(h.until) {
		return h.record, x.epoch
	}
	return nil, x.epoch
}

// current returns the epoch.
func (x *recent) current() uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.epoch
}

// addAt adds a finished record that was read, or written, in an epoch. What was
// released since is not brought back.
func (x *recent) addAt(now time.Time, r *store.Record, epoch uint64) {
	size := sizeOf(r)
	if size > x.room/8 { // one does not push out the many
		return
	}
	until := now.Add(x.hold)
	if r.Expires.Before(until) {
		until = r.Expires
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if epoch != x.epoch {
		return
	}
	h := &held{record: r, until: until}
	x.records[r.Name] = h
	if x.newest == nil {
		x.oldest = h
	} else {
		x.newest.next = h
	}
	x.newest = h
	for x.bytes += size; x.bytes > x.room; x.oldest = x.oldest.next {
		x.bytes -= sizeOf(x.oldest.record)
		if x.records[x.oldest.record.Name] == x.oldest { // else a newer one has its place
			delete(x.records, x.oldest.record.Name)
		}
	}
}

// forget drops a record, and what is being read of it just now.
func (x *recent) forget(n *store.Name) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.epoch++
	delete(x.records, *n) // its place in the list is freed in its turn
}

func sizeOf(r *store.Record) int {
	return overhead + len(r.Answer.Header) + len(r.Answer.Body)
}

// watched is a store through which a person may release keys: this process then
// does not go on replaying them.
type watched struct {
	store.Keys

	recent *recent
}

// Release implements store.Keys.
func (w watched) Release(ctx context.Context, now time.Time, h store.Hold, finished bool) error {
	err := w.Keys.Release(ctx, now, h, finished)
	w.recent.forget(&h.Name) // also where the error does not say whether it was released
	return err
}
