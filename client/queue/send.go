package queue

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// Fate is what became of an attempt. The zero value repeats, so that a result
// that was forgotten loses nothing.
type Fate uint8

// The fates.
const (
	Again   Fate = iota // the server failed, or did not answer; the attempt counts
	Done                // the server has it
	Offline             // nothing was asked of the server, or it takes none from this version; does not count
	Never               // no repeat can help; the item is a dead letter at once
	numFates
)

var fateNames = [numFates]string{"again", "done", "offline", "never"}

// String returns the fate in lower case.
func (f Fate) String() string {
	if f >= numFates {
		return fmt.Sprintf("fate(%d)", f)
	}
	return fateNames[f]
}

// Result is what a sender tells of an attempt.
type Result struct {
	Fate Fate
	// Wait is what the server asked for; 0 is nothing.
	Wait time.Duration
	// Ticket is the server's Retry-Ticket: the wait is this client's own, and the
	// item keeps its place so as to be there at its instant.
	Ticket string
	// Err tells why, for the trace and the dead letter's reason.
	Err error
}

// NextAt returns the item to send now, with a wait of 0, or how long to wait for
// one; [Idle] if only a change brings one. The item is the caller's until
// [Queue.SettleAt]; there is one at a time. The attempt is in the file before it
// begins: an item whose sending kills the process, every time, becomes a dead
// letter here.
func (q *Queue) NextAt(now time.Time) (Item, time.Duration, error) {
	q.mu.Lock()
	exhausted, err := q.exhaustedAt(now)
	var item Item
	var wait time.Duration
	if err == nil {
		item, wait, err = q.nextAt(now)
	}
	q.mu.Unlock()
	for _, l := range exhausted {
		q.config.Trace.dead(l)
	}
	return item, wait, err
}

// exhaustedAt buries the items at the head whose attempts are spent although
// none of them came to an end.
func (q *Queue) exhaustedAt(now time.Time) (letters []Letter, err error) {
	s := &q.state
	for q.out == 0 && len(s.waiting) > 0 && int64(s.waiting[0].attempts) >= int64(q.config.MaxAttempts) {
		e := s.waiting[0]
		if err := q.write(true, e.buried(now, nil, "the process ended during the last attempt")); err != nil {
			return letters, err
		}
		letters = append(letters, e.letter())
	}
	return letters, nil
}

func (q *Queue) nextAt(now time.Time) (Item, time.Duration, error) {
	s := &q.state
	if q.log.broken != nil {
		return Item{}, 0, q.log.broken
	}
	if q.out != 0 || len(s.waiting) == 0 {
		return Item{}, Idle, nil
	}
	if left := s.pause.leftAt(now); left > 0 {
		return Item{}, left, nil
	}
	e := s.waiting[0]
	drawn := false
	if e.attempts > 0 && q.config.Budget != nil && !q.probe {
		if drawn = q.config.Budget.Withdraw(); !drawn {
			q.probe = true
			s.pause = pause{at: now.UnixNano(), wait: q.config.MaxWait, cause: causeBackoff}
			return Item{}, q.config.MaxWait, nil
		}
	}
	item := e.item()
	// Not synced: the page cache outlives the process, and after a power cut
	// the count is one lower.
	if err := q.write(false, record{kind: kindStart, id: e.id, number: saturate(item.Attempts + 1)}); err != nil {
		return Item{}, 0, err
	}
	q.out, q.drawn, q.probe = e.id, drawn, false
	return item, 0, nil
}

// SettleAt tells what became of the item that NextAt gave out. u, 0 to 1, draws
// the wait. It returns [ErrUnknown] if the item is not out, and the errors of the
// file system; after one of those the item may be sent again, with its key.
func (q *Queue) SettleAt(now time.Time, id uint64, r Result, u float64) error {
	q.mu.Lock()
	item, letter, err := q.settleAt(now, id, &r, u)
	q.mu.Unlock()
	if err != nil {
		return err
	}
	if t := &q.config.Trace; t.Settled != nil {
		t.Settled(item, r)
	}
	if letter != nil {
		q.config.Trace.dead(*letter)
	}
	q.notify()
	return nil
}

func (q *Queue) settleAt(now time.Time, id uint64, r *Result, u float64) (Item, *Letter, error) {
	s := &q.state
	i := find(s.waiting, id)
	if id == 0 || id != q.out || i < 0 {
		return Item{}, nil, fmt.Errorf("%w: %d is not being sent", ErrUnknown, id)
	}
	q.out = 0
	e := s.waiting[i]
	item := e.item()
	item.Attempts-- // as NextAt gave it
	q.account(item.Attempts == 0, r.Fate)
	records, sync := q.verdict(now, e, r, u)
	if err := q.write(sync, records...); err != nil {
		return Item{}, nil, err
	}
	if records[0].kind == kindDead {
		letter := e.letter()
		return item, &letter, nil
	}
	return item, nil, nil
}

// account tells the budget how the attempt ended.
func (q *Queue) account(first bool, f Fate) {
	b := q.config.Budget
	switch {
	case b == nil:
	case f == Done && first:
		b.Deposit()
	case q.drawn && (f == Done || f == Offline):
		b.Refund()
	}
	q.drawn = false
}

// verdict returns what the result does to the item, the item's record first.
// What only moves an item need not be on the disk at once; what ends one must.
func (q *Queue) verdict(now time.Time, e *entry, r *Result, u float64) (records []record, sync bool) {
	if r.Fate == Done {
		return []record{{kind: kindDone, id: e.id}}, true
	}
	if r.Fate == Never {
		return []record{e.buried(now, r.Err, "no repeat can help")}, true
	}
	failures := saturate(int(q.state.failures) + 1)
	p := q.config.pauseAfter(now, r, failures, u)
	own := record{kind: kindBack, id: e.id, number: e.attempts}
	switch {
	case r.Fate == Offline:
		own.kind, own.number, own.text = kindHold, e.attempts-1, e.ticket
	case int64(e.attempts) >= int64(q.config.MaxAttempts):
		own, sync = e.buried(now, r.Err, "the server failed every attempt"), true
	case validTicket(r.Ticket):
		own.kind, own.text = kindHold, r.Ticket
	case q.config.Ordered:
		own.kind = kindHold
	}
	return []record{own, p.record(failures)}, sync
}

// buried is the record of an item's death.
func (e *entry) buried(now time.Time, cause error, otherwise string) record {
	reason := otherwise
	if cause != nil {
		reason = cause.Error()
	}
	reason = strings.ToValidUTF8(reason[:min(len(reason), maxText)], "")
	return record{kind: kindDead, id: e.id, at: now.UnixNano(), number: e.attempts, text: reason}
}

// maxTicket is the longest Retry-Ticket of the contract, in bytes.
const maxTicket = 200

func validTicket(t string) bool { return t != "" && len(t) <= maxTicket }

// release takes back an item whose sending was broken off: nobody knows what
// became of it, so the attempt stays counted, and nobody is to blame, so there
// is no pause.
func (q *Queue) release(id uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.out == id {
		q.out = 0
	}
}

// Reconnected is [Queue.ReconnectedAt] now. Call it when the network is back.
func (q *Queue) Reconnected() { q.ReconnectedAt(time.Now(), rand.Float64()) }

// ReconnectedAt spreads what waits: the first item is sent after the part u, 0
// to 1, of min(n × PerItem, MaxSpread). It ends the back-off of an absent
// network and never that of a server. While one spread runs a further call
// changes nothing: a link that flaps must neither draw until it draws a short
// wait nor put the sending off for ever.
func (q *Queue) ReconnectedAt(now time.Time, u float64) {
	q.mu.Lock()
	s := &q.state
	left := s.pause.leftAt(now)
	delay := portion(u, q.config.spread(len(s.waiting)))
	keep := left > 0 && (s.pause.cause == causeSpread || s.pause.cause != causeOffline && left >= delay)
	if !keep {
		// Not written: who opens the file anew draws anew.
		s.pause = pause{at: now.UnixNano(), wait: delay, cause: causeSpread}
	}
	q.mu.Unlock()
	q.notify()
}
