package gate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/comporta/comporta"
)

// maxLevers bounds what an operator can have set at once; each one costs every
// request a comparison.
const maxLevers = 64

// maxLeverTTL keeps a forgotten lever from shedding traffic for ever.
const maxLeverTTL = 24 * time.Hour

// Lever sheds part of the traffic for a while. The criteria that are set must
// all match; at least one must be set, so that nobody sheds everything by a
// slip of the hand.
type Lever struct {
	ID      int       `json:"id"`
	Route   string    `json:"route,omitempty"`   // name of a route
	Client  string    `json:"client,omitempty"`  // readable name, or the 16 hex digits of its key
	Version string    `json:"version,omitempty"` // client name, or name/version
	Percent int       `json:"percent"`           // 1 to 100; the same operations are shed each time
	Until   time.Time `json:"until"`
}

func (l *Lever) validate(now time.Time) error {
	var problems []error
	if l.Route == "" && l.Client == "" && l.Version == "" {
		problems = append(problems, errors.New("shed: name a route, a client or a version: a lever without any would shed everything"))
	}
	if l.Percent < 1 || l.Percent > 100 {
		problems = append(problems, fmt.Errorf("shed: percent %d is not within 1 to 100", l.Percent))
	}
	if ttl := l.Until.Sub(now); ttl <= 0 || ttl > maxLeverTTL {
		problems = append(problems, fmt.Errorf("shed: ttl %v is not within 0 and %v: a lever must expire by itself", ttl.Round(time.Second), maxLeverTTL))
	}
	return errors.Join(problems...)
}

// levers is the operator's list. Requests read it without a lock.
type levers struct {
	mu   sync.Mutex // serialises writers
	next int
	list atomic.Pointer[[]Lever]
}

func (ls *levers) listAt(now time.Time) []Lever {
	p := ls.list.Load()
	if p == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(*p), func(l Lever) bool { return !now.Before(l.Until) })
}

func (ls *levers) addAt(now time.Time, l Lever) (Lever, error) {
	if err := l.validate(now); err != nil {
		return Lever{}, err
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	list := ls.listAt(now)
	if len(list) >= maxLevers {
		return Lever{}, fmt.Errorf("shed: %d levers are set, which is the limit: remove one", maxLevers)
	}
	ls.next++
	l.ID = ls.next
	list = append(list, l)
	ls.list.Store(&list)
	return l, nil
}

func (ls *levers) removeAt(now time.Time, id int) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	list := ls.listAt(now)
	kept := slices.DeleteFunc(slices.Clone(list), func(l Lever) bool { return l.ID == id })
	if len(kept) == 0 {
		ls.list.Store(nil)
	} else {
		ls.list.Store(&kept)
	}
	return len(kept) < len(list)
}

// shedsAt reports whether a lever takes r. route is the name of its route; draw
// is a stable name of the operation, so that a repeat meets the same fate.
func (ls *levers) shedsAt(now time.Time, r *comporta.Request, route string, draw uint64) bool {
	p := ls.list.Load()
	if p == nil {
		return false
	}
	for i := range *p {
		l := &(*p)[i]
		if now.Before(l.Until) && l.takes(r, route) && draw%100 < uint64(l.Percent) {
			return true
		}
	}
	return false
}

func (l *Lever) takes(r *comporta.Request, route string) bool {
	if l.Route != "" && l.Route != route {
		return false
	}
	if l.Client != "" && l.Client != r.Client.Name && !isKey(l.Client, r.Client.Key) {
		return false
	}
	return l.Version == "" || versionMatches(l.Version, r.Version)
}

// versionMatches reports whether v is the named client, at the named version if
// the lever says one.
func versionMatches(want string, v comporta.ClientVersion) bool {
	name, version, exact := strings.Cut(want, "/")
	if name != v.Name {
		return false
	}
	if !exact {
		return true
	}
	w, ok := comporta.ParseVersion(version)
	return ok && w.Compare(v) == 0
}

// isKey compares the 16 hex digits of a client key without making a string.
func isKey(hex string, key uint64) bool {
	const digits = "0123456789abcdef"
	if len(hex) != 16 {
		return false
	}
	for i := range 16 {
		if hex[i] != digits[key>>(60-4*i)&0xf] {
			return false
		}
	}
	return true
}
