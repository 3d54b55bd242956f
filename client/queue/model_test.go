package queue

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Random sequences of everything, with restarts: each accepted item is in
// exactly one place, and nothing is sent before its time.
func TestModel(t *testing.T) {
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		m := model{dropped: map[string]bool{}, done: map[string]bool{}, accepted: map[string]bool{}, now: start}
		m.config = Config{
			Path: filepath.Join(dir, fmt.Sprint(n)), MaxItems: 8, MaxAttempts: 3,
			Ordered: rapid.Bool().Draw(t, "ordered"),
			Trace:   Trace{Dropped: func(l Letter) { m.dropped[l.Key] = true }},
		}
		m.open(t)
		t.Repeat(map[string]func(*rapid.T){
			"":          m.check,
			"enqueue":   m.enqueue,
			"next":      m.next,
			"settle":    m.settle,
			"restart":   func(t *rapid.T) { m.close(t); m.open(t) },
			"reconnect": func(t *rapid.T) { m.q.ReconnectedAt(m.now, rapid.Float64Range(0, 1).Draw(t, "u")) },
			"later": func(t *rapid.T) {
				m.now = m.now.Add(time.Duration(rapid.Int64Range(-int64(time.Minute), int64(10*time.Minute)).Draw(t, "d")))
			},
			"revive":  func(t *rapid.T) { m.letter(t, (*Queue).Revive) },
			"discard": m.discard,
		})
		m.close(t)
		if err := os.Remove(m.config.Path); err != nil {
			t.Fatal(err)
		}
	})
}

type model struct {
	config Config
	q      *Queue
	now    time.Time
	out    *Item
	named  time.Time // nothing may be sent before, by the server's word
	count  int

	accepted, done, dropped map[string]bool
}

func (m *model) open(t *rapid.T) {
	var err error
	if m.q, err = Open(m.config); err != nil {
		t.Fatal(err)
	}
	m.out = nil
}

func (m *model) close(t *rapid.T) {
	before := m.q.state.String()
	if err := m.q.Close(); err != nil {
		t.Fatal(err)
	}
	q, err := Open(m.config)
	if err != nil {
		t.Fatal(err)
	}
	// The pause is left out: that of a reconnection is not kept.
	q.state.pause = m.q.state.pause
	if after := q.state.String(); after != before {
		t.Fatalf("%s\nis after a restart\n%s", before, after)
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
}

func (m *model) enqueue(t *rapid.T) {
	m.count++
	key := fmt.Sprint("k", m.count)
	if _, err := m.q.EnqueueAt(m.now, Entry{Key: key, Payload: []byte("of " + key)}, rapid.Float64Range(0, 1).Draw(t, "u")); err == nil {
		m.accepted[key] = true
	} else if len(m.q.state.waiting) < m.config.MaxItems {
		t.Fatal(err)
	}
}

func (m *model) next(t *rapid.T) {
	item, wait, err := m.q.NextAt(m.now)
	if err != nil {
		t.Fatal(err)
	}
	if wait != 0 {
		return
	}
	if m.out != nil {
		t.Fatalf("%s is out, and now %s", m.out.Key, item.Key)
	}
	if item.Attempts >= m.config.MaxAttempts || string(item.Payload) != "of "+item.Key {
		t.Fatalf("sent %+v", item)
	}
	if m.now.Before(m.named) {
		t.Fatalf("sent %v before the instant that the server named", m.named.Sub(m.now))
	}
	m.out = &item
}

func (m *model) settle(t *rapid.T) {
	if m.out == nil {
		t.Skip("nothing is out")
	}
	r := Result{Fate: Fate(rapid.IntRange(0, int(numFates)-1).Draw(t, "fate"))}
	m.named = time.Time{}
	if r.Fate == Again && rapid.Bool().Draw(t, "named") {
		r.Wait = 5 * time.Minute
		m.named = m.now.Add(r.Wait - time.Minute) // the clock may step back by a minute at a time, which begins the wait anew
	}
	if err := m.q.SettleAt(m.now, m.out.ID, r, rapid.Float64Range(0, 1).Draw(t, "u")); err != nil {
		t.Fatal(err)
	}
	if r.Fate == Done {
		m.done[m.out.Key] = true
	}
	m.out = nil
}

func (m *model) letter(t *rapid.T, do func(*Queue, uint64) error) string {
	letters := slices.Collect(m.q.Letters())
	if len(letters) == 0 {
		t.Skip("no letters")
	}
	l := rapid.SampledFrom(letters).Draw(t, "letter")
	if err := do(m.q, l.ID); err != nil {
		t.Fatal(err)
	}
	return l.Key
}

func (m *model) discard(t *rapid.T) { m.dropped[m.letter(t, (*Queue).Discard)] = true }

func (m *model) check(t *rapid.T) {
	places := map[string]int{}
	for _, k := range slices.Concat(waitingKeys(m.q), deadKeys(m.q)) {
		places[k]++
	}
	for k := range m.accepted {
		if m.done[k] {
			places[k]++
		}
		if m.dropped[k] {
			places[k]++
		}
		if places[k] != 1 {
			t.Fatalf("%s is in %d places", k, places[k])
		}
	}
	if len(m.q.state.waiting)+len(m.q.state.dead) > m.config.MaxItems {
		t.Fatalf("%d waiting and %d dead of %d", len(m.q.state.waiting), len(m.q.state.dead), m.config.MaxItems)
	}
}
