package jwtidentity

import "sync/atomic"

const (
	defaultRemembered = 16 << 10
	maxRemembered     = 1 << 20
	ways              = 4
)

// entry is a verified token, known by a keyed hash: the token is not kept.
type entry struct {
	lo, hi      uint64
	keys        *keySet // that verified it
	subject     string
	from, until int64 // Unix seconds, leeway included; from is in, until is out
}

func (e *entry) validAt(now int64) bool { return now >= e.from && now < e.until }

// cache remembers verified tokens in a fixed number of places, four for each
// token to choose from. Reads are one to four pointer loads; there is no lock.
type cache struct{ sets [][ways]atomic.Pointer[entry] }

func newCache(entries int) cache {
	if entries <= 0 {
		entries = defaultRemembered
	}
	return cache{make([][ways]atomic.Pointer[entry], (min(entries, maxRemembered)+ways-1)/ways)}
}

func (c *cache) find(lo, hi uint64) *entry {
	set := &c.sets[lo%uint64(len(c.sets))]
	for i := range set {
		if e := set[i].Load(); e != nil && e.lo == lo && e.hi == hi {
			return e
		}
	}
	return nil
}

// keep puts e into the place of the same token, else of one that is over, else
// of the one that ends first. Two goroutines may choose one place: the loser's
// token is verified again.
func (c *cache) keep(now int64, e *entry) {
	set := &c.sets[e.lo%uint64(len(c.sets))]
	place, ends := 0, int64(0)
	for i := range set {
		old := set[i].Load()
		if old == nil || old.lo == e.lo && old.hi == e.hi || old.keys != e.keys || !old.validAt(now) {
			place = i
			break
		}
		if i == 0 || old.until < ends {
			place, ends = i, old.until
		}
	}
	set[place].Store(e)
}
