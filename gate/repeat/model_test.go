package repeat

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/internal/hash"
)

// model is the detector in words of its own: a map that never forgets, one
// record for each fingerprint, written from the package comment.
type model struct {
	records map[modelKey]*record
	window  time.Duration
	failed  time.Duration // the window of what is not settled
	after   int
	any     bool
}

type modelKey struct {
	client uint64
	method string
	path   string
}

type record struct {
	touched  time.Time
	attempts int
	last     comporta.Result // of the latest sighting
	left     int             // hasty departures in a row, refusals aside
	status   int             // deterministic status that is being counted
	count    int
}

func (m *model) see(k modelKey, now time.Time, safe bool) (comporta.Kind, int) {
	r := m.records[k]
	if r == nil || now.Truncate(tickLength).Sub(r.touched.Truncate(tickLength)) >= m.windowOf(r) {
		m.records[k] = &record{touched: now, attempts: 1}
		return comporta.KindOriginal, 1
	}
	kind := comporta.KindRetry
	switch {
	case r.count >= m.after:
		kind = comporta.KindHopeless
	case m.any:
	case r.last == comporta.ResultSuccess, r.last == comporta.ResultPending && safe,
		r.last == comporta.ResultAbandoned && r.left == 1:
		kind = comporta.KindPoll
	}
	r.touched, r.last = now, comporta.ResultPending
	r.attempts++
	return kind, r.attempts
}

// windowOf is short for what nobody has reason to ask again for.
func (m *model) windowOf(r *record) time.Duration {
	settled := r.last == comporta.ResultSuccess || r.last == comporta.ResultDeterministic ||
		r.last == comporta.ResultAbandoned && r.left == 1
	if settled || m.any {
		return m.window
	}
	return m.failed
}

func (m *model) resolve(k modelKey, attempt int, now time.Time, safe bool, o comporta.Outcome) {
	r := m.records[k]
	if r == nil {
		return
	}
	if o.Result == comporta.ResultSuccess {
		*r = record{touched: now, attempts: r.attempts, last: o.Result}
		return
	}
	if attempt != r.attempts {
		return // old news
	}
	hasty := o.Result == comporta.ResultAbandoned && safe && o.Latency <= time.Second
	switch {
	case hasty && r.last == comporta.ResultAbandoned && r.left == 1: // told twice
	case hasty:
		r.left, r.status, r.count = r.left+1, 0, 0
	case o.Result == comporta.ResultDeterministic && r.last == o.Result && r.status == o.Status: // told twice
	case o.Result == comporta.ResultDeterministic:
		if r.status != o.Status {
			r.count = 0
		}
		r.status, r.left = o.Status, 0
		r.count = min(r.count+1, maxFails)
	case o.Result == comporta.ResultAbandoned:
		o.Result = comporta.ResultTimeout // left because it took too long
	}
	r.touched, r.last = now, o.Result
}

type flight struct {
	key     modelKey
	request *comporta.Request
	attempt int // the model's
}

// TestModel compares the detector over a table with room enough with the model
// over random histories.
func TestModel(t *testing.T) {
	table := newTable(1<<10, hash.NewSeed())
	rapid.Check(t, func(t *rapid.T) {
		clear(table.lines)
		clear(table.routes)
		c := Config{
			Window:        time.Duration(rapid.IntRange(4, 40).Draw(t, "window")) * tickLength,
			HopelessAfter: rapid.IntRange(1, 4).Draw(t, "after"),
			Mode:          Mode(rapid.IntRange(0, 1).Draw(t, "mode")),
		}
		c.FailedWindow = c.Window + time.Duration(rapid.IntRange(0, 40).Draw(t, "failed"))*tickLength
		d, err := New(c, table)
		if err != nil {
			t.Fatal(err)
		}
		m := &model{records: map[modelKey]*record{}, window: c.Window, failed: c.FailedWindow, after: c.HopelessAfter, any: c.Mode == ModeAny}
		h := history{d: d, m: m, now: noon}
		t.Repeat(map[string]func(*rapid.T){"see": h.see, "resolve": h.resolve, "wait": h.wait})
	})
}

type history struct {
	d       *Detector
	m       *model
	now     time.Time
	flights []flight
}

func (h *history) see(t *rapid.T) {
	k := modelKey{
		client: rapid.Uint64Range(1, 3).Draw(t, "client"),
		method: rapid.SampledFrom([]string{"GET", "POST"}).Draw(t, "method"),
		path:   rapid.SampledFrom([]string{"/a", "/b"}).Draw(t, "path"),
	}
	r := get(k.path)
	r.Method, r.Client.Key = k.method, k.client
	h.d.SeeAt(h.now, r, 0, false)
	kind, attempts := h.m.see(k, h.now, r.Safe())
	if r.Sighting.Kind != kind || r.Sighting.Attempts != attempts {
		t.Fatalf("%v: %v, attempt %d; the model says %v, %d", k, r.Sighting.Kind, r.Sighting.Attempts, kind, attempts)
	}
	h.flights = append(h.flights, flight{k, r, attempts})
}

func (h *history) resolve(t *rapid.T) {
	if len(h.flights) == 0 {
		t.Skip("nothing in flight")
	}
	f := h.flights[rapid.IntRange(0, len(h.flights)-1).Draw(t, "flight")]
	o := rapid.SampledFrom([]comporta.Outcome{
		answered(200), answered(304), answered(422), answered(404), answered(503), answered(409),
		ended(comporta.ResultRefused, 0), ended(comporta.ResultTimeout, 3*time.Second),
		ended(comporta.ResultUnreachable, 0), ended(comporta.ResultAbandoned, time.Second/2),
		ended(comporta.ResultAbandoned, 3*time.Second),
	}).Draw(t, "outcome")
	h.d.ResolveAt(h.now, f.request, o)
	h.m.resolve(f.key, f.attempt, h.now, f.request.Safe(), o)
}

func (h *history) wait(t *rapid.T) {
	h.now = h.now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond)
}
