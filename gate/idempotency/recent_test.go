package idempotency

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/comporta/comporta/store"
)

// What is held was added last under its name, has not ended, and was not released
// since it was read; all of it is within the room.
func TestRecentAgainstAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1e9, 0)
		const room, hold = 16 * overhead, 40 * time.Second
		x := newRecent(room, hold)
		type entry struct {
			record *store.Record
			until  time.Time
		}
		model := map[uint64]entry{}
		old := x.current()
		names := rapid.Uint64Range(0, 20)
		record := func(t *rapid.T, i uint64) *store.Record {
			return &store.Record{
				Name: nameOf(i), Expires: now.Add(time.Duration(rapid.IntRange(1, 60).Draw(t, "ttl")) * time.Second),
				Answer: store.Answer{Body: make([]byte, rapid.IntRange(0, overhead).Draw(t, "size"))},
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				i := names.Draw(t, "name")
				r := record(t, i)
				x.addAt(now, r, x.current())
				until := now.Add(hold)
				if r.Expires.Before(until) {
					until = r.Expires
				}
				model[i] = entry{r, until}
			},
			"add what was read before a release": func(t *rapid.T) {
				if old != x.current() {
					x.addAt(now, record(t, names.Draw(t, "name")), old)
				}
				old = x.current()
			},
			"add what is too large": func(t *rapid.T) {
				i := names.Draw(t, "name")
				r := record(t, i)
				r.Answer.Body = make([]byte, room/8)
				if held, _ := x.getAt(now, &r.Name); held == nil {
					x.addAt(now, r, x.current())
					delete(model, i)
				}
			},
			"release": func(t *rapid.T) {
				i := names.Draw(t, "name")
				n := nameOf(i)
				x.forget(&n)
				delete(model, i)
			},
			"time passes": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(1, 20).Draw(t, "seconds")) * time.Second)
			},
			"": func(t *rapid.T) {
				for i := range uint64(21) {
					n := nameOf(i)
					got, _ := x.getAt(now, &n)
					want, ok := model[i]
					if got != nil && (!ok || got != want.record || !now.Before(want.until)) {
						t.Fatalf("%d: held %v, want %v", i, got, want)
					}
				}
				listed, size := 0, 0
				for h := x.oldest; h != nil; h = h.next {
					listed, size = listed+1, size+sizeOf(h.record)
					if h.next == nil && h != x.newest {
						t.Fatal("the list does not end with the newest")
					}
				}
				if size != x.bytes || size > room || len(x.records) > listed {
					t.Fatalf("%d bytes are listed, %d counted, of %d; %d records, %d listed", size, x.bytes, room, len(x.records), listed)
				}
			},
		})
	})
}

// While there is room, what was added last is held.
func TestRecentHoldsTheLatest(t *testing.T) {
	now := time.Unix(1e9, 0)
	x := newRecent(16*overhead, time.Minute)
	for i := range uint64(100) {
		x.addAt(now, &store.Record{Name: nameOf(i), Expires: now.Add(time.Hour)}, x.current())
		for j := range i + 1 {
			n := nameOf(j)
			if held, _ := x.getAt(now, &n); (held != nil) != (j+16 > i) {
				t.Fatalf("after %d: %d held: %v", i, j, held != nil)
			}
		}
	}
	for i := range uint64(100) { // an older place of a name goes without it
		n := nameOf(i % 2)
		x.addAt(now, &store.Record{Name: n, Expires: now.Add(time.Hour)}, x.current())
		if other := nameOf((i + 1) % 2); i > 0 {
			if held, _ := x.getAt(now, &other); held == nil {
				t.Fatalf("%d was pushed out by an older record of its own", (i+1)%2)
			}
		}
	}
}

// counting counts who looks; a sole one is nobody else's.
type counting struct {
	store.Keys

	looks atomic.Int64
	fail  atomic.Bool
}

func (c *counting) Look(ctx context.Context, now time.Time, n store.Name) (store.Record, error) {
	c.looks.Add(1)
	if c.fail.Load() {
		return store.Record{}, context.DeadlineExceeded
	}
	return c.Keys.Look(ctx, now, n)
}

type sole struct{ *counting }

func (sole) Sole() {}

// A wave of repeats does not lean on the store: it is asked again after sharedHold,
// or, where nobody else can change it, not at all until the record's time is over.
func TestRepeatsAreAnsweredFromMemory(t *testing.T) {
	for _, alone := range []bool{false, true} {
		var c *counting
		inBubble(t, func(s store.Keys) store.Keys {
			c = &counting{Keys: s}
			if alone {
				return sole{c}
			}
			return c
		}, func(t *testing.T, k *Keeper, _ *events) {
			op := operation(t, k, "k", &Policy{TTL: time.Hour})
			mustClaim(t, k, op).Finish(store.Answer{Status: 201, Body: []byte("done")}, nil)
			replayed := func() bool {
				v := k.LookAt(t.Context(), time.Now(), op, true)
				return v.Replay != nil && string(v.Replay.Answer.Body) == "done"
			}
			wave := func(want int64) {
				t.Helper()
				before := c.looks.Load()
				for range 1000 {
					if !replayed() {
						t.Fatal("not replayed")
					}
				}
				if n := c.looks.Load() - before; n != want {
					t.Errorf("alone %v: the store was asked %d times, want %d", alone, n, want)
				}
			}
			wave(0)
			c.fail.Store(true) // a store that is down keeps nobody from what is in memory
			wave(0)
			c.fail.Store(false)
			time.Sleep(sharedHold)
			if alone {
				wave(0)
			} else {
				wave(1)
			}
			time.Sleep(time.Hour - sharedHold)
			if replayed() {
				t.Error("replayed after its time")
			}
		})
	}
}

// A key that a person releases here is free here at once, whoever was reading it;
// one that is released elsewhere, after sharedHold.
func TestReleaseEndsReplays(t *testing.T) {
	for _, here := range []bool{true, false} {
		var c *counting
		inBubble(t, func(s store.Keys) store.Keys {
			c = &counting{Keys: s}
			return c
		}, func(t *testing.T, k *Keeper, _ *events) {
			op := operation(t, k, "k", &Policy{})
			mustClaim(t, k, op).Finish(store.Answer{Status: 201}, nil)
			r, err := k.Store().Look(t.Context(), time.Now(), op.Name)
			if err != nil {
				t.Fatal(err)
			}
			by := c.Keys
			if here {
				by = k.Store()
			}
			if err := by.Release(t.Context(), time.Now(), store.Hold{Name: r.Name, Fence: r.Fence}, true); err != nil {
				t.Fatal(err)
			}
			if v := k.LookAt(t.Context(), time.Now(), op, true); v.Go() != here {
				t.Errorf("here %v: %+v", here, v)
			}
			time.Sleep(sharedHold)
			if v := k.LookAt(t.Context(), time.Now(), op, true); !v.Go() {
				t.Errorf("here %v: %+v", here, v)
			}
		})
	}
}
