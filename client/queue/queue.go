package queue

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"iter"
	"math"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/comporta/comporta"
)

// Idle is the wait of a queue that has nothing to send.
const Idle = time.Duration(math.MaxInt64)

// Entry is what a caller hands in.
type Entry struct {
	// Key is the Idempotency-Key, 1 to 255 visible ASCII characters. Empty mints
	// one. With a key of its own a caller may enqueue the same entry again after
	// an error, and there will be one item.
	Key string
	// Payload is kept byte for byte.
	Payload []byte
}

// Item is an entry in the queue.
type Item struct {
	ID         uint64 // names the item while the queue is open
	Key        string
	Payload    []byte // not to be modified
	Attempts   int    // made before: 0 for the first, as in Retry-Attempt
	EnqueuedAt time.Time
	Ticket     string // the Retry-Ticket of the last refusal, to be shown on return
}

// Letter is a dead letter.
type Letter struct {
	Item

	DeadAt time.Time
	Reason string // up to 1 KiB
}

// Recovery tells what opening found.
type Recovery struct {
	Waiting, Dead int
	// Cut are the bytes of a torn tail, which belonged to a write that never
	// returned.
	Cut int64
	// Skipped are damaged bytes with sound records behind them. A crash does not
	// do that: the medium lost what had been written.
	Skipped int64
}

// Stats are the queue's numbers.
type Stats struct {
	Waiting, Dead int
	Bytes         int64  // of both, against MaxBytes
	FileBytes     int64  // of the file
	Refused       uint64 // entries that did not fit, since Open
	Dropped       uint64 // dead letters that made room, since Open
}

// Queue is an open queue; see [Open]. Its methods may be called from many
// goroutines.
type Queue struct {
	config    Config
	recovered Recovery
	wake      chan struct{} // holds one; written by whoever changes what is next, read by Run

	mu      sync.Mutex
	log     *log
	state   state
	out     uint64 // the item that is being sent; 0 is none
	drawn   bool   // its token was taken from the budget
	probe   bool   // the next repeat needs no token
	running bool
	refused uint64
	dropped uint64
}

// Open opens the queue in the file, or creates it. The caller must close it. All
// problems of the configuration are returned joined; others are [ErrLocked],
// [ErrNoQueue] and those of the file system. After a crash it cuts off what a
// torn write left.
func Open(c Config) (*Queue, error) {
	c, err := prepare(c)
	if err != nil {
		return nil, err
	}
	q := &Queue{config: c, wake: make(chan struct{}, 1)}
	q.log, q.recovered, err = openLog(c.Path, q.state.apply)
	if err != nil {
		return nil, err
	}
	q.recovered.Waiting, q.recovered.Dead = len(q.state.waiting), len(q.state.dead)
	if q.recovered.Skipped > 0 { // write it sound before more is added
		if err := q.log.rewrite(q.state.records()); err != nil {
			_ = q.log.close() // the first error is the one to tell
			return nil, err
		}
	}
	return q, nil
}

// Close closes the file and gives its lock away. End Run before. A second Close
// returns [ErrClosed].
func (q *Queue) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.log.close()
}

// Recovered tells what Open found.
func (q *Queue) Recovered() Recovery { return q.recovered }

// Stats returns the queue's numbers.
func (q *Queue) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	return Stats{
		Waiting: len(q.state.waiting), Dead: len(q.state.dead),
		Bytes: q.state.bytes, FileBytes: q.log.size,
		Refused: q.refused, Dropped: q.dropped,
	}
}

// Enqueue is [Queue.EnqueueAt] now.
func (q *Queue) Enqueue(e Entry) (Item, error) {
	return q.EnqueueAt(time.Now(), e, mathrand.Float64())
}

// EnqueueAt adds an item. When it returns without error the item is on the disk.
// u, 0 to 1, draws the first wait: an item is here because it could not be sent,
// so an empty queue begins with the wait after one failure.
//
// An entry whose key and payload the queue holds already is not added again: its
// item is returned. Errors are [ErrFull], [ErrTooLarge], [ErrKey], [ErrKeyTaken],
// [ErrClosed] and those of the file system; after one of the last kind the item
// may exist or not.
func (q *Queue) EnqueueAt(now time.Time, e Entry, u float64) (Item, error) {
	if e.Key == "" {
		e.Key = rand.Text()
	} else if k, ok := comporta.ParseKey(e.Key); !ok || k != e.Key {
		return Item{}, fmt.Errorf("%w: %.40q", ErrKey, e.Key)
	}
	q.mu.Lock()
	item, dropped, err := q.enqueueAt(now, e, u)
	q.mu.Unlock()
	if err == nil {
		q.notify()
	}
	for _, l := range dropped {
		if q.config.Trace.Dropped != nil {
			q.config.Trace.Dropped(l)
		}
	}
	return item, err
}

func (q *Queue) enqueueAt(now time.Time, e Entry, u float64) (Item, []Letter, error) {
	s := &q.state
	if same := s.keys[e.Key]; same != nil {
		if find(s.dead, same.id) >= 0 || !bytes.Equal(same.payload, e.Payload) {
			return Item{}, nil, fmt.Errorf("%w: %s", ErrKeyTaken, e.Key)
		}
		return same.item(), nil, nil
	}
	cost := int64(itemOverhead + len(e.Key) + len(e.Payload))
	if len(e.Payload) > q.config.MaxPayload || cost > q.config.MaxBytes {
		return Item{}, nil, fmt.Errorf("%w: %d bytes", ErrTooLarge, len(e.Payload))
	}
	put := record{kind: kindPut, id: s.newest + 1, at: now.UnixNano(), text: e.Key, payload: e.Payload}
	drops, letters, err := q.room(cost)
	if err != nil {
		return Item{}, nil, err
	}
	records := slices.Concat(drops, []record{put})
	if len(s.waiting) == 0 && s.pause.leftAt(now) == 0 {
		first := pause{at: now.UnixNano(), wait: portion(u, q.config.ceiling(1)), cause: causeOffline}
		records = append(records, first.record(s.failures))
	}
	if err := q.write(true, records...); err != nil {
		return Item{}, nil, err
	}
	q.dropped += uint64(len(letters))
	return s.keys[e.Key].item(), letters, nil
}

// room returns the records that drop as many dead letters, the oldest first, as
// an item of the cost needs.
func (q *Queue) room(cost int64) ([]record, []Letter, error) {
	s, c := &q.state, &q.config
	items, size := len(s.waiting), s.bytes-s.buried
	if items+1 > c.MaxItems || size+cost > c.MaxBytes {
		q.refused++
		return nil, nil, &FullError{Items: items, MaxItems: c.MaxItems, Bytes: size, MaxBytes: c.MaxBytes}
	}
	var drops []record
	var letters []Letter
	items, size = items+len(s.dead), s.bytes
	for _, e := range s.dead {
		if items+1 <= c.MaxItems && size+cost <= c.MaxBytes {
			break
		}
		items, size = items-1, size-e.cost()
		drops, letters = append(drops, record{kind: kindDrop, id: e.id}), append(letters, e.letter())
	}
	return drops, letters, nil
}

// write puts records into the file and then lets them happen.
func (q *Queue) write(sync bool, records ...record) error {
	if limit := 2*q.state.bytes + slack; q.log.size > limit {
		// Without room for a second file the queue still works, until the first
		// has grown so far that something must be done.
		if err := q.log.rewrite(q.state.records()); err != nil && q.log.size > 2*limit {
			return err
		}
	}
	if err := q.log.append(sync, records...); err != nil {
		return err
	}
	for i := range records {
		q.state.apply(&records[i])
	}
	return nil
}

// notify wakes Run, if it waits.
func (q *Queue) notify() {
	select {
	case q.wake <- struct{}{}:
	default: // it is about to look anyway
	}
}

// Letters lists the dead letters, the oldest first, as they are at the call.
func (q *Queue) Letters() iter.Seq[Letter] {
	q.mu.Lock()
	defer q.mu.Unlock()
	letters := make([]Letter, len(q.state.dead))
	for i, e := range q.state.dead {
		letters[i] = e.letter()
	}
	return slices.Values(letters)
}

// Revive lets a dead letter wait again, at the end and with all its attempts
// before it. It returns [ErrUnknown] for what is none.
func (q *Queue) Revive(id uint64) error {
	err := q.bury(id, kindRevive)
	if err == nil {
		q.notify()
	}
	return err
}

// Discard removes a dead letter. It returns [ErrUnknown] for what is none.
func (q *Queue) Discard(id uint64) error { return q.bury(id, kindDrop) }

func (q *Queue) bury(id uint64, k kind) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if find(q.state.dead, id) < 0 {
		return fmt.Errorf("%w: dead letter %d", ErrUnknown, id)
	}
	return q.write(true, record{kind: k, id: id})
}

func (e *entry) item() Item {
	return Item{
		ID: e.id, Key: e.key, Payload: e.payload, Ticket: e.ticket,
		Attempts: int(e.attempts), EnqueuedAt: instant(e.at),
	}
}

func (e *entry) letter() Letter {
	return Letter{Item: e.item(), DeadAt: instant(e.deadAt), Reason: e.reason}
}
