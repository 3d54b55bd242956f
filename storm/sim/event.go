package sim

// instant is virtual time: nanoseconds since the run began. A run begins before
// its outage, so that the house is warm when it fails.
type instant int64

const never instant = 1<<63 - 1

// kind says what happens in an event.
type kind uint32

const (
	evBegin  kind = iota // somebody wants something: the next operation begins
	evSend               // ref, an operation, makes an attempt
	evAnswer             // ref, an operation, learns what became of its attempt
	evDone               // ref, a visit, leaves the service
	evQueue              // ref, a visit, has waited in the gate's queue for as long as it may
)

// event is of fixed size and without pointers, so that a heap of millions of
// them costs the garbage collector nothing.
type event struct {
	at   instant
	kind kind
	ref  uint32
}

// agenda is a heap of events with four children to a node: half as deep as a
// binary one, and the four lie in one cache line.
//
// Events of the same instant come out in an order that depends on nothing but the
// order in which they went in, which keeps runs identical.
type agenda struct{ heap []event }

func (a *agenda) add(at instant, k kind, ref uint32) {
	a.heap = append(a.heap, event{})
	h, i := a.heap, len(a.heap)-1
	for i > 0 {
		parent := (i - 1) / 4
		if h[parent].at <= at {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = event{at, k, ref}
}

// next takes the earliest event out. There must be one.
func (a *agenda) next() event {
	h := a.heap
	first, last := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	a.heap = h
	if len(h) == 0 {
		return first
	}
	i := 0
	for {
		child := 4*i + 1
		if child >= len(h) {
			break
		}
		least := child
		for c := child + 1; c < min(child+4, len(h)); c++ {
			if h[c].at < h[least].at {
				least = c
			}
		}
		if h[least].at >= last.at {
			break
		}
		h[i] = h[least]
		i = least
	}
	h[i] = last
	return first
}

func (a *agenda) empty() bool { return len(a.heap) == 0 }
