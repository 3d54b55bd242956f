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
	"container/heap"
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
	order byCount[K]
}

type entry[K comparable] struct {
	Item[K]
	at int // index in order
}

// New returns a sketch that holds size keys, at least 1.
func New[K comparable](size int) *Sketch[K] {
	size = max(size, 1)
	return &Sketch[K]{size: size, where: make(map[K]*entry[K], size), order: make(byCount[K], 0, size)}
}

// Add counts one occurrence of key. It allocates only until size keys are held.
func (s *Sketch[K]) Add(key K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.where[key]
	switch {
	case e != nil:
	case len(s.order) < s.size:
		e = &entry[K]{Item: Item[K]{Key: key}}
		s.where[key] = e
		heap.Push(&s.order, e)
	default:
		e = s.order[0]
		delete(s.where, e.Key)
		e.Key, e.Error = key, e.Count
		s.where[key] = e
	}
	e.Count++
	heap.Fix(&s.order, e.at)
}

// Top returns the n heaviest keys, heaviest first.
func (s *Sketch[K]) Top(n int) []Item[K] {
	s.mu.Lock()
	items := make([]Item[K], 0, len(s.order))
	for _, e := range s.order {
		items = append(items, e.Item)
	}
	s.mu.Unlock()
	slices.SortFunc(items, func(a, b Item[K]) int { return cmp.Compare(b.Count, a.Count) })
	return items[:min(max(n, 0), len(items))]
}

// byCount is a heap with the lightest key at its head.
type byCount[K comparable] []*entry[K]

func (h byCount[K]) Len() int           { return len(h) }
func (h byCount[K]) Less(i, j int) bool { return h[i].Count < h[j].Count }
func (h byCount[K]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

// Push is for container/heap.
func (h *byCount[K]) Push(x any) {
	e := x.(*entry[K]) //nolint:errcheck,forcetypeassert // only Add pushes
	e.at = len(*h)
	*h = append(*h, e)
}

// Pop is for container/heap.
func (h *byCount[K]) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return e
}
