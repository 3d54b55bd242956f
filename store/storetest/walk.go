package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/comporta/comporta/store"
)

// model is what a store must be, in as few words as can be: one record a key,
// and a clock.
type model struct {
	now     time.Duration
	records map[string]*modelRecord
}

type modelRecord struct {
	fence       int64
	lease, ends time.Duration // when
	finished    bool
	body        string
}

// live returns the record of a key and its state.
func (m *model) live(key string) (*modelRecord, store.State) {
	r := m.records[key]
	switch {
	case r == nil || m.now >= r.ends:
		return nil, 0
	case r.finished:
		return r, store.Finished
	case m.now < r.lease:
		return r, store.Running
	}
	return r, store.Lapsed
}

func (m *model) held(key string, fence int64) *modelRecord {
	if r, _ := m.live(key); r != nil && r.fence == fence {
		return r
	}
	return nil
}

func (m *model) claim(key string, c *store.Claim) bool {
	r, state := m.live(key)
	switch {
	case r != nil && r.fence == c.Fence && state != store.Finished:
		return true
	case r == nil, state == store.Lapsed && r.fence == c.Over:
		m.records[key] = &modelRecord{fence: c.Fence, lease: m.now + c.Lease, ends: m.now + c.TTL}
		return true
	}
	return false
}

func (m *model) renew(key string, fence int64, lease time.Duration) bool {
	r := m.held(key, fence)
	if r == nil || r.finished {
		return false
	}
	r.lease = m.now + lease
	r.ends = max(r.ends, r.lease)
	return true
}

func (m *model) finish(key string, fence int64, body string, ttl time.Duration) bool {
	r := m.held(key, fence)
	if r != nil && !r.finished {
		r.finished, r.body, r.ends = true, body, m.now+ttl
	}
	return r != nil
}

func (m *model) release(key string, fence int64, finished bool) bool {
	r := m.held(key, fence)
	if r == nil || r.finished != finished {
		return false
	}
	delete(m.records, key)
	return true
}

// step is the grain of the walk's time. An engine whose clock goes on by itself is
// a little ahead of the model, which changes nothing: all ends are whole steps away.
const step = 30 * time.Minute

// walk takes an engine through random steps and holds it against the model.
func walk(t *trial) {
	if !t.moves() {
		t.Skip("the clock of this engine cannot be moved")
	}
	seed := uint64(time.Now().UnixNano())
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	w := &walker{t, rand.New(rand.NewPCG(seed, 0)), model{records: map[string]*modelRecord{}}, []string{"a", "b", "c"}, []int64{store.NewFence()}}
	for range 300 {
		w.move()
		if t.Failed() {
			return
		}
	}
}

type walker struct {
	*trial

	random *rand.Rand
	model  model
	keys   []string
	fences []int64 // that were drawn, so that some calls name a right one
}

func (w *walker) fence() int64 { return w.fences[w.random.IntN(len(w.fences))] }

// some is a number of steps.
func (w *walker) some() time.Duration { return time.Duration(1+w.random.IntN(4)) * step }

func (w *walker) move() {
	key := w.keys[w.random.IntN(len(w.keys))]
	if r := w.model.records[key]; r != nil && w.random.IntN(2) == 0 {
		w.fences = append(w.fences, r.fence) // likelier
	}
	w.fences = w.fences[max(0, len(w.fences)-8):]
	fence := w.fence()
	h := store.Hold{Name: name(key), Fence: fence}
	switch w.random.IntN(7) {
	case 0, 1:
		w.claim(key)
	case 2:
		lease := w.some()
		err := w.trial.keys.Renew(w.ctx(), w.now, h, lease)
		w.agree("renew", key, err, w.model.renew(key, fence, lease))
	case 3:
		ttl, body := w.some(), fmt.Sprint(w.random.Uint32())
		err := w.trial.keys.Finish(w.ctx(), w.now, h, answer(body, ttl))
		w.agree("finish", key, err, w.model.finish(key, fence, body, ttl))
	case 4:
		finished := w.random.IntN(2) == 0
		err := w.trial.keys.Release(w.ctx(), w.now, h, finished)
		w.agree("release", key, err, w.model.release(key, fence, finished))
	case 5:
		w.model.now += step
		w.pass(step, func() bool { return true })
	default:
		if _, err := w.trial.keys.Sweep(w.ctx(), w.now, 2); err != nil {
			w.Errorf("sweep: %v", err)
		}
	}
	for _, key := range w.keys {
		w.same(key)
	}
}

func (w *walker) claim(key string) {
	c := w.ask(key)
	c.Lease = w.some()
	c.TTL = c.Lease + w.some() - step
	if w.random.IntN(4) == 0 {
		c.Fence = w.fence() // asked again, perhaps
	}
	if over := w.fence(); over != c.Fence && w.random.IntN(2) == 0 {
		c.Over = over
	}
	w.fences = append(w.fences, c.Fence)
	got, err := w.trial.keys.Claim(w.ctx(), w.now, c)
	if want := w.model.claim(key, &c); err != nil || got.Granted != want {
		w.Errorf("claim of %s: %+v, %v; want granted: %v", key, got, err, want)
	}
}

func (w *walker) agree(what, key string, err error, want bool) {
	if want != (err == nil) || err != nil && !errors.Is(err, store.ErrLost) {
		w.Errorf("%s of %s: %v; want it done: %v", what, key, err, want)
	}
}

// same holds what the engine says of a key against the model.
func (w *walker) same(key string) {
	got, err := w.trial.keys.Look(w.ctx(), w.now, name(key))
	want, state := w.model.live(key)
	switch {
	case want == nil && errors.Is(err, store.ErrNotFound):
	case want == nil || err != nil:
		w.Errorf("%s: %+v, %v; want %+v", key, got, err, want)
	case got.State != state || got.Fence != want.fence || string(got.Answer.Body) != want.body:
		w.Errorf("%s: %+v; want %+v, %v", key, got, want, state)
	}
}
