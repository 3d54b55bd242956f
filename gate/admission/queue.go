package admission

import (
	"slices"
	"time"
)

// Caps of the queue. They hold whatever the limit is, and need nobody to enforce
// them but the arrival itself.
const (
	maxOriginals = 4096 // a quarter of the limit, at most this
	maxRepeats   = 1024 // a sixteenth of the limit, at most this
)

// line is one half of the queue: originals stand in one, repeats in the other,
// so that neither can crowd the other out. Each has its own cap.
type line uint8

const (
	lineOriginals line = iota
	lineRepeats
	numLines
)

func lineOf(k rank) line {
	if k.isOriginal() {
		return lineOriginals
	}
	return lineRepeats
}

// capOf returns how many may stand in a line under a limit.
func capOf(l line, limit int) int {
	if l == lineOriginals {
		return min(max(limit/4, 1), maxOriginals)
	}
	return min(max(limit/16, 1), maxRepeats)
}

// queue holds the waiters. State.mu guards it.
type queue struct {
	n      int // waiters in all
	ranks  [numRanks][]*Waiter
	lines  [numLines]tally
	soon   time.Time // no deadline is earlier; zero when unknown
	seq    uint64
	now    uint64 // virtual time: see pass
	tags   [tagSlots]tag
	credit int // what repeats at their instant are owed, in 1/owedEvery of a permit
}

// turn is how much of virtual time a permit takes. It divides well, since time
// passes in fractions of it.
const turn = 1 << 10

// tag remembers where the share of a client ends in virtual time. An entry whose
// end has passed equals no entry, and two clients that collide only forget a
// debt, so a small table will do.
type tag struct{ client, end uint64 }

const tagSlots = 1024 // a power of two

func (q *queue) tagOf(client uint64) *tag {
	// The key is a hash already; mixing its halves spares a bad one its collisions.
	return &q.tags[(client^client>>32)%tagSlots]
}

// startOf returns the start tag that a client's next waiter gets: now, or where
// the share of its earlier ones ends.
func (q *queue) startOf(client uint64) uint64 {
	if t := q.tagOf(client); t.client == client {
		return max(q.now, t.end)
	}
	return q.now
}

// before orders waiters of one rank.
func before(a, b *Waiter) int {
	switch {
	case a.start != b.start:
		if a.start < b.start {
			return -1
		}
		return 1
	case a.seq < b.seq:
		return -1
	case a.seq > b.seq:
		return 1
	}
	return 0
}

// ahead returns how many would be served before a newcomer of this rank, client
// and weight, at best.
func (q *queue) ahead(k rank, client uint64, weight int) int {
	n, booked := 0, 0
	for r := range k {
		n += len(q.ranks[r])
		if r.isBooked() {
			booked += len(q.ranks[r])
		}
	}
	start := q.startOf(client)
	i, _ := slices.BinarySearchFunc(q.ranks[k], start, func(w *Waiter, start uint64) int {
		if w.start <= start {
			return -1
		}
		return 1
	})
	if !k.isBooked() {
		return n + i
	}
	// Repeats at their instant need not wait for all originals: it is their turn
	// once the debt to them covers all of them and the newcomer. Without this they
	// would be sent away for a place that they are owed.
	booked += i
	return min(n+i, booked+max((booked+1)*(owedEvery-1)*weight-q.credit, 0))
}

// push puts w at its place. The caller has made room.
func (q *queue) push(w *Waiter) {
	q.seq++
	w.seq, w.start = q.seq, q.startOf(w.client)
	*q.tagOf(w.client) = tag{w.client, w.start + turn*uint64(w.route.weight)}
	list := q.ranks[w.rank]
	i, _ := slices.BinarySearchFunc(list, w, before)
	q.ranks[w.rank] = slices.Insert(list, i, w)
	q.lines[lineOf(w.rank)].add(w.client)
	if q.n == 0 || w.deadline.Before(q.soon) {
		q.soon = w.deadline
	}
	q.n++
}

// remove takes w out. If it was not served, its client gets its share back.
func (q *queue) remove(w *Waiter, served bool) {
	list := q.ranks[w.rank]
	i, found := slices.BinarySearchFunc(list, w, before)
	if !found {
		return
	}
	q.ranks[w.rank] = slices.Delete(list, i, i+1)
	line := &q.lines[lineOf(w.rank)]
	if served {
		q.pass(w, len(line.of))
	} else if t := q.tagOf(w.client); t.client == w.client {
		t.end -= min(t.end, turn*uint64(w.route.weight))
	}
	line.drop(w.client)
	q.n--
}

// pass lets virtual time pass by what w was served: a permit is divided among the
// clients that wait, so that a turn of all of them is one turn (the virtual time
// of Parekh and Gallager, "A generalized processor sharing approach to flow
// control", 1993). It never lies behind the start tag of who is served.
//
// The start tags alone would make it stand still while strangers come who ask once:
// each begins at now, so that whoever asked twice, such as the people behind one
// address, would wait behind all who are still to come.
func (q *queue) pass(w *Waiter, clients int) {
	q.now = max(q.now+turn*uint64(w.route.weight)/uint64(max(clients, 1)), w.start)
}

// weakest returns the waiter that yields its place in a full line to a newcomer
// of the given rank and client, or nil: the last of a lower rank, else the last
// of the client that has the most there, if that leaves it no worse off than the
// newcomer.
func (q *queue) weakest(k rank, client uint64) *Waiter {
	l := lineOf(k)
	for r := numRanks - 1; r > k; r-- {
		if list := q.ranks[r]; lineOf(r) == l && len(list) > 0 {
			return list[len(list)-1]
		}
	}
	t := &q.lines[l]
	if t.most <= t.of[client]+1 {
		return nil
	}
	for _, w := range slices.Backward(q.ranks[k]) {
		if t.of[w.client] == t.most {
			return w
		}
	}
	return nil
}

// tally counts the waiters of each client in a line, and knows the greatest
// count at all times: under a flood of newcomers a search would cost more than
// the decision itself.
type tally struct {
	n    int
	of   map[uint64]int
	have []int // have[k] clients have k waiters
	most int
}

func (t *tally) add(client uint64) {
	if t.of == nil {
		t.of = make(map[uint64]int)
	}
	k := t.of[client] + 1
	t.of[client] = k
	for len(t.have) <= k {
		t.have = append(t.have, 0)
	}
	t.have[k-1]--
	t.have[k]++
	t.most = max(t.most, k)
	t.n++
}

func (t *tally) drop(client uint64) {
	k := t.of[client]
	if k--; k > 0 {
		t.of[client] = k
	} else {
		delete(t.of, client)
	}
	t.have[k+1]--
	t.have[k]++
	if k+1 == t.most && t.have[t.most] == 0 {
		t.most--
	}
	t.n--
}
