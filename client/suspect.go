package client

import (
	"hash/maphash"
	"net/http"
	"reflect"
	"sync"
	"sync/atomic"
	"time"
)

// suspectFor is how long a failure is remembered: a layer above that repeats
// does so within it, and an address that is used again rarely does.
const suspectFor = 30 * time.Second

// suspects remembers which requests failed in which context, to notice a layer
// above that repeats without saying so. It costs successful calls one load.
type suspects struct {
	seed  maphash.Seed
	until atomic.Int64 // Unix nanoseconds at which the newest is forgotten

	mu    sync.Mutex
	table [64]suspect
}

// suspect is one failure. A newer one with the same place takes it: then one
// layer less is noticed.
type suspect struct {
	name uint64
	at   time.Time
}

func newSuspects() suspects { return suspects{seed: maphash.MakeSeed()} }

// any reports whether anything is remembered.
func (s *suspects) any(now time.Time) bool { return now.UnixNano() < s.until.Load() }

// add remembers that a request failed for good.
func (s *suspects) add(now time.Time, req *http.Request) {
	name := s.name(req)
	if name == 0 {
		return
	}
	s.until.Store(now.Add(suspectFor).UnixNano())
	s.mu.Lock()
	s.table[name%uint64(len(s.table))] = suspect{name, now}
	s.mu.Unlock()
}

// seenAt reports whether the same request failed in the same context lately.
func (s *suspects) seenAt(now time.Time, req *http.Request) bool {
	name := s.name(req)
	if name == 0 {
		return false
	}
	s.mu.Lock()
	seen := s.table[name%uint64(len(s.table))]
	s.mu.Unlock()
	age := now.Sub(seen.at)
	return seen.name == name && age >= 0 && age < suspectFor
}

// name tells requests apart by context, method and target; 0 where the context
// is not of one operation. A context is told by its address, and is not kept.
func (s *suspects) name(req *http.Request) uint64 {
	ctx := req.Context()
	if ctx.Done() == nil || reflect.TypeOf(ctx).Kind() != reflect.Pointer {
		return 0 // context.Background is everybody's
	}
	var h maphash.Hash
	h.SetSeed(s.seed)
	maphash.WriteComparable(&h, ctx)
	for _, part := range [...]string{req.Method, req.URL.Host, req.URL.Path, req.URL.RawQuery} {
		maphash.WriteComparable(&h, part)
	}
	return h.Sum64()
}
