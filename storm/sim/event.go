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
// binary one, and the four lie in one cache line, since the root stands at 3 and
// so each family at a multiple of four.
//
// Events of the same instant come out in an order that depends on nothing but the
// order in which they went in, which keeps runs identical.
type agenda struct{ heap []event }

// root is the place of the earliest event; those before it are never used.
const root = 3

func parentOf(i int) int { return i/4 + 2 }
func childOf(i int) int  { return 4*i - 8 } // the first of four

func (a *agenda) add(at instant, k kind, ref uint32) {
	if len(a.heap) == 0 {
		a.heap = make([]event, root, 1<<10)
	}
	a.heap = append(a.heap, event{})
	h, i := a.heap, len(a.heap)-1
	for i > root {
		parent := parentOf(i)
		if h[parent].at <= at {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = event{at, k, ref}
}

// next takes the earliest event out. There must be one.
//
// The gap that it leaves sinks to a leaf, and the last event rises from there to
// its place: it is a late one, so that this takes a step or two.
func (a *agenda) next() event {
	h := a.heap
	first, last := h[root], h[len(h)-1]
	h = h[:len(h)-1]
	a.heap = h
	if len(h) == root {
		return first
	}
	i := sink(h)
	for i > root && h[parentOf(i)].at >= last.at {
		h[i] = h[parentOf(i)]
		i = parentOf(i)
	}
	h[i] = last
	return first
}

// sink fills the gap at the root with the first of the earliest below it, and so on
// down to a leaf, whose place it returns. It finds them by arithmetic: branches
// here are such that no processor can predict them. No instant is negative, so that
// no difference overflows.
func sink(h []event) int {
	i, child := root, childOf(root)
	for child+4 <= len(h) {
		f := (*[4]event)(h[child:])
		b, d := f[1].at-f[0].at, f[3].at-f[2].at
		ab, cd := f[0].at+b&(b>>63), f[2].at+d&(d>>63)
		k, l := uint64(b)>>63, 2+uint64(d)>>63
		k += (l - k) & uint64((cd-ab)>>63)
		h[i] = f[k&3]
		i = child + int(k&3)
		child = childOf(i)
	}
	if child >= len(h) {
		return i
	}
	least := child
	for c := child + 1; c < len(h); c++ {
		if h[c].at < h[least].at {
			least = c
		}
	}
	h[i] = h[least]
	return least
}

func (a *agenda) empty() bool { return len(a.heap) <= root }
