// Package topk finds the heaviest keys of a stream in fixed memory.
//
// It is the space-saving sketch of Metwally, Agrawal and El Abbadi (Efficient
// Computation of Frequent and Top-k Elements in Data Streams, ICDT 2005): a key
// that is not held takes the place, and the count, of the lightest one held. No
// count is too low; each is too high by at most its Error. A key with more than
// 1/size of the stream is always held. The count of a key never falls, also when
// it is lost and found again: it was the lightest when it left, and enters with
// the count of the lightest.
package topk

import (
	"cmp"
	"slices"
	"sync"
)

// Item is one heavy key.
type Item[K comparable] struct {
	Key   K
	Count uint64 // at most Error too high
	Error uint64
}

// Sketch counts keys. Methods may be called from many goroutines.
type Sketch[K comparable] struct {
	mu    sync.Mutex
	size  int
	where map[K]*entry[K]
	order []place[K] // a heap with the lightest key at its head
}

type entry[K comparable] struct {
	key   K
	error uint64
	at    int // index in order
}

// place has the count beside the pointer, so that comparing two follows neither.
type place[K comparable] struct {
	count uint64
	*entry[K]
}

// New returns a sketch that holds size keys, at least 1.
func New[K comparable](size int) *Sketch[K] {
	size = max(size, 1)
	return &Sketch[K]{size: size, where: make(map[K]*entry[K], size), order: make([]place[K], 0, size)}
}

// Add counts one occurrence of key. It allocates only until size keys are held.
func (s *Sketch[K]) Add(key K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.where[key]
	switch {
	case e != nil:
	case len(s.order) < s.size:
		e = &entry[K]{key: key, at: len(s.order)}
		s.where[key] = e
		s.order = append(s.order, place[K]{0, e})
		s.rise(e.at)
	default:
		e = s.order[0].entry
		delete(s.where, e.key)
		e.key, e.error = key, s.order[0].count
		s.where[key] = e
	}
	s.order[e.at].count++
	s.sink(e.at)
}

// rise brings a place that is too light for i towards the head.
func (s *Sketch[K]) rise(i int) {
	p := s.order[i]
	for i > 0 && s.order[(i-1)/2].count > p.count {
		s.put(i, s.order[(i-1)/2])
		i = (i - 1) / 2
	}
	s.put(i, p)
}

// sink brings a place that is too heavy for i away from the head.
func (s *Sketch[K]) sink(i int) {
	p := s.order[i]
	for {
		next := 2*i + 1
		if next+1 < len(s.order) && s.order[next+1].count < s.order[next].count {
			next++
		}
		if next >= len(s.order) || s.order[next].count >= p.count {
			break
		}
		s.put(i, s.order[next])
		i = next
	}
	s.put(i, p)
}

func (s *Sketch[K]) put(i int, p place[K]) {
	s.order[i] = p
	p.at = i
}

// Top returns the n heaviest keys, heaviest first.
func (s *Sketch[K]) Top(n int) []Item[K] {
	s.mu.Lock()
	items := make([]Item[K], 0, len(s.order))
	for _, p := range s.order {
		items = append(items, Item[K]{Key: p.key, Count: p.count, Error: p.error})
	}
	s.mu.Unlock()
	slices.SortFunc(items, func(a, b Item[K]) int { return cmp.Compare(b.Count, a.Count) })
	return items[:min(max(n, 0), len(items))]
}
