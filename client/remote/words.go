package remote

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/comporta/comporta/internal/retrypolicy"
)

// words keeps the last Retry-Policy of each destination. They are read with
// every call and change rarely, so the table is copied when it changes. The zero
// value is empty.
type words struct {
	table atomic.Pointer[map[string]*word]
	mu    sync.Mutex // one change after the other
}

// word is a Retry-Policy that was heard. Only its end changes.
type word struct {
	retrypolicy.Brief
	until atomic.Int64 // Unix nanoseconds
}

// left returns how long a word applies; not above 0 when it is over.
func (w *word) left(now time.Time) time.Duration {
	until := w.until.Load()
	left := time.Duration(until - now.UnixNano())
	if left > w.TTL {
		// The clock stepped back; the word must not live longer for it.
		w.until.CompareAndSwap(until, now.UnixNano()+int64(w.TTL))
		return w.TTL
	}
	return left
}

// at returns what a destination said and how long it applies; not above 0 when
// nothing does.
func (ws *words) at(now time.Time, destination string) (retrypolicy.Brief, time.Duration) {
	table := ws.table.Load()
	if table == nil {
		return retrypolicy.Brief{}, 0
	}
	w := (*table)[destination]
	if w == nil {
		return retrypolicy.Brief{}, 0
	}
	return w.Brief, w.left(now)
}

// count returns how many words apply.
func (ws *words) count(now time.Time) int {
	n := 0
	if table := ws.table.Load(); table != nil {
		for _, w := range *table {
			if w.left(now) > 0 {
				n++
			}
		}
	}
	return n
}

// note keeps what a destination said, and reports whether that is news. The same
// words with another end are none: the ttl shrinks from refusal to refusal.
func (ws *words) note(now time.Time, destination string, b retrypolicy.Brief) (news bool) {
	if ws.renew(now, destination, b) {
		return false
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.renew(now, destination, b) {
		return false // somebody else has just heard it
	}
	next := map[string]*word{}
	if table := ws.table.Load(); table != nil {
		next = maps.Clone(*table)
	}
	maps.DeleteFunc(next, func(_ string, w *word) bool { return w.left(now) <= 0 })
	was := next[destination] != nil
	delete(next, destination)
	if b.TTL > 0 {
		if len(next) >= maxDestinations {
			forget(now, next)
		}
		w := &word{Brief: b}
		w.until.Store(now.UnixNano() + int64(b.TTL))
		next[strings.Clone(destination)] = w // the caller's may be part of a long URL
	}
	ws.table.Store(&next)
	return was || b.TTL > 0
}

// renew gives words that apply already their new end, and reports whether they do.
func (ws *words) renew(now time.Time, destination string, b retrypolicy.Brief) bool {
	table := ws.table.Load()
	if table == nil {
		return false
	}
	w := (*table)[destination]
	// Words that came with a shorter ttl are new ones: theirs bounds what a clock
	// that steps back can do.
	if w == nil || w.left(now) <= 0 || w.MaxAttempts != b.MaxAttempts || w.MinWait != b.MinWait || b.TTL > w.TTL || b.TTL <= 0 {
		return false
	}
	w.until.Store(now.UnixNano() + int64(b.TTL))
	return true
}

// forget drops the word that ends first.
func forget(now time.Time, table map[string]*word) {
	first, least := "", 2*retrypolicy.MaxTTL
	for destination, w := range table {
		if left := w.left(now); left < least {
			first, least = destination, left
		}
	}
	delete(table, first)
}
