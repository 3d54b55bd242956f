package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/comporta/comporta/store"
)

func claimAndFinish(t *trial) {
	c := t.ask("k")
	h := t.granted(c)
	r := t.look("k")
	if r.Name != c.Name || r.Label != c.Label || r.State != store.Running || r.Fence != c.Fence || string(r.Fingerprint) != "f" {
		t.Errorf("running: %+v", r)
	}
	if r.LeaseLeft <= 0 || r.LeaseLeft > t.long || !r.Finished.IsZero() || r.Expires.Sub(r.Created) != 24*t.long {
		t.Errorf("running: lease left %v, finished %v, lives %v", r.LeaseLeft, r.Finished, r.Expires.Sub(r.Created))
	}
	if other := t.denied(t.ask("k"), store.Running); other.Fence != c.Fence || other.LeaseLeft <= 0 {
		t.Errorf("in the way: %+v", other)
	}
	t.finish(h, "made")
	for _, r := range []store.Record{t.look("k"), t.denied(t.ask("k"), store.Finished)} {
		a := r.Answer
		if r.State != store.Finished || a.Status != 201 || string(a.Header) != "Location: /1\r\n" || string(a.Body) != "made" || a.Omitted {
			t.Errorf("finished: %+v", r)
		}
		if r.LeaseLeft != 0 || r.Finished.Before(r.Created) || r.BodySize != 4 || r.Label != c.Label || string(r.Fingerprint) != "f" {
			t.Errorf("finished: %+v", r)
		}
	}
}

// claimsRace: check and claim are one step.
func claimsRace(t *trial) {
	const keys, callers = 20, 64
	others := []store.Keys{t.keys}
	if t.engine.Shared {
		second := t.engine.Open(t)
		defer second.Close()
		others = append(others, second)
	}
	var granted [keys]atomic.Int64
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for k := range keys {
				got, err := others[i%len(others)].Claim(context.WithoutCancel(t.ctx()), t.now, t.ask(fmt.Sprint("k", k)))
				switch {
				case err != nil:
					t.Errorf("caller %d: %v", i, err)
				case got.Granted:
					granted[k].Add(1)
				case got.Record.State != store.Running:
					t.Errorf("in the way: %+v", got.Record)
				}
			}
		})
	}
	wg.Wait()
	for k := range granted {
		if n := granted[k].Load(); n != 1 {
			t.Errorf("key %d: %d of %d are granted", k, n, callers)
		}
	}
}

func claimAskedAgain(t *trial) {
	c := t.ask("k")
	h := t.granted(c)
	t.granted(c)
	t.finish(h, "made")
	t.denied(c, store.Finished)
}

func release(t *trial) {
	c := t.ask("k")
	h := t.granted(c)
	t.wants(t.keys.Release(t.ctx(), t.now, store.Hold{Name: c.Name, Fence: c.Fence + 1}, false), store.ErrLost, "under another fence")
	if err := t.keys.Release(t.ctx(), t.now, h, false); err != nil {
		t.Fatal(err)
	}
	if !t.gone("k") {
		t.Error("it is still there")
	}
	t.wants(t.keys.Release(t.ctx(), t.now, h, false), store.ErrLost, "released again")
	t.wants(t.keys.Finish(t.ctx(), t.now, h, answer("late", t.long)), store.ErrLost, "finished after its release")
	t.wants(t.keys.Renew(t.ctx(), t.now, h, t.long), store.ErrLost, "renewed after its release")
	h2 := t.granted(t.ask("k"))
	t.wants(t.keys.Release(t.ctx(), t.now, h, false), store.ErrLost, "another's")
	t.finish(h2, "made")
}

func releaseOfAnotherState(t *trial) {
	h := t.granted(t.ask("k"))
	t.wants(t.keys.Release(t.ctx(), t.now, h, true), store.ErrLost, "a running one as finished")
	t.finish(h, "made")
	t.wants(t.keys.Release(t.ctx(), t.now, h, false), store.ErrLost, "a finished one as running")
	if err := t.keys.Release(t.ctx(), t.now, h, true); err != nil || !t.gone("k") {
		t.Errorf("a finished one: %v", err)
	}
	t.granted(t.ask("k"))
}

// liveIsNoOrphan: nobody takes over what still runs.
func liveIsNoOrphan(t *trial) {
	h := t.granted(t.ask("k"))
	c := t.ask("k")
	c.Over = h.Fence
	if r := t.denied(c, store.Running); r.Fence != h.Fence {
		t.Errorf("in the way: %+v", r)
	}
	t.finish(h, "made")
	if r := t.denied(c, store.Finished); string(r.Answer.Body) != "made" {
		t.Errorf("in the way: %+v", r)
	}
}

// brief claims with a short lease and lets it end.
func (t *trial) brief(key string) store.Hold {
	t.Helper()
	c := t.ask(key)
	c.Lease = t.short
	h := t.granted(c)
	t.lapse(key, t.short)
	return h
}

// takeoverIsASwap: only who names the fence that has lapsed takes it over.
func takeoverIsASwap(t *trial) {
	h := t.brief("k")
	r := t.denied(t.ask("k"), store.Lapsed)
	if r.Fence != h.Fence || r.LeaseLeft != 0 {
		t.Errorf("in the way: %+v", r)
	}
	c := t.ask("k")
	c.Over = h.Fence + 1
	t.denied(c, store.Lapsed)
	c.Over, c.Fingerprint = h.Fence, []byte("g")
	h2 := t.granted(c)
	t.granted(c)
	if r := t.look("k"); r.State != store.Running || r.Fence != c.Fence || string(r.Fingerprint) != "g" {
		t.Errorf("taken over: %+v", r)
	}
	late := t.ask("k")
	late.Over = h.Fence
	t.denied(late, store.Running)
	t.finish(h2, "second")
	if r := t.denied(late, store.Finished); string(r.Answer.Body) != "second" {
		t.Errorf("who came late: %+v", r)
	}
}

func takeoverRace(t *trial) {
	h := t.brief("k")
	var granted atomic.Int64
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			c := t.ask("k")
			c.Over = h.Fence
			got, err := t.keys.Claim(context.WithoutCancel(t.ctx()), t.now, c)
			if err != nil {
				t.Error(err)
			}
			if got.Granted {
				granted.Add(1)
			}
		})
	}
	wg.Wait()
	if n := granted.Load(); n != 1 {
		t.Errorf("%d took it over", n)
	}
}

// lateFinish: who comes back after a takeover changes nothing.
func lateFinish(t *trial) {
	h := t.brief("k")
	c := t.ask("k")
	c.Over = h.Fence
	h2 := t.granted(c)
	t.wants(t.keys.Finish(t.ctx(), t.now, h, answer("first", t.long)), store.ErrLost, "finish")
	t.wants(t.keys.Renew(t.ctx(), t.now, h, t.long), store.ErrLost, "renew")
	t.wants(t.keys.Release(t.ctx(), t.now, h, false), store.ErrLost, "release")
	t.finish(h2, "second")
	t.wants(t.keys.Finish(t.ctx(), t.now, h, answer("first", t.long)), store.ErrLost, "finish of the finished")
	if r := t.look("k"); string(r.Answer.Body) != "second" {
		t.Errorf("%+v", r)
	}
}

// finishOfALapsedHold: the answer is known after all, and nobody is in the way.
func finishOfALapsedHold(t *trial) {
	h := t.brief("k")
	t.finish(h, "late")
	if r := t.look("k"); r.State != store.Finished || string(r.Answer.Body) != "late" {
		t.Errorf("%+v", r)
	}
}

func finishAskedAgain(t *trial) {
	h := t.granted(t.ask("k"))
	t.finish(h, "made")
	t.finish(h, "made")
	t.wants(t.keys.Renew(t.ctx(), t.now, h, t.long), store.ErrLost, "renewed after its end")
	if r := t.look("k"); r.State != store.Finished || string(r.Answer.Body) != "made" {
		t.Errorf("%+v", r)
	}
}

// leaseOnTheRecord: whatever is claimed has a lease, and whatever has one lapses.
func leaseOnTheRecord(t *trial) {
	t.brief("k")
	page, err := t.keys.List(t.ctx(), t.now, store.Query{})
	if err != nil || len(page.Records) != 1 || page.Records[0].State != store.Lapsed {
		t.Errorf("%+v, %v", page, err)
	}
}

func renew(t *trial) {
	c := t.ask("k")
	c.Lease = t.short
	if t.moves() {
		c.TTL = t.short // a life that ends with the lease goes on with it too
	}
	h := t.granted(c)
	if err := t.keys.Renew(t.ctx(), t.now, h, t.long); err != nil {
		t.Fatal(err)
	}
	end := time.Now().Add(2 * t.short)
	t.pass(2*t.short, func() bool { return t.moves() || time.Now().After(end) })
	if r := t.look("k"); r.State != store.Running || r.LeaseLeft > t.long || r.LeaseLeft <= 0 {
		t.Errorf("a renewed lease: %+v", r)
	}
	t.wants(t.keys.Renew(t.ctx(), t.now, store.Hold{Name: h.Name, Fence: h.Fence + 1}, t.long), store.ErrLost, "another's")
	t.wants(t.keys.Renew(t.ctx(), t.now, h, 0), store.ErrInvalid, "no lease")

	lapsed := t.brief("l")
	if err := t.keys.Renew(t.ctx(), t.now, lapsed, t.long); err != nil || t.look("l").State != store.Running {
		t.Errorf("renewed after it lapsed: %v, %+v", err, t.look("l"))
	}
}

func sharedByTwo(t *trial) {
	if !t.engine.Shared {
		t.Skip("this engine is one process's")
	}
	second := t.engine.Open(t)
	defer second.Close()
	h := t.granted(t.ask("k"))
	got, err := second.Claim(t.ctx(), t.now, t.ask("k"))
	if err != nil || got.Granted || got.Record.State != store.Running {
		t.Fatalf("by another: %+v, %v", got, err)
	}
	t.finish(h, "made")
	r, err := second.Look(t.ctx(), t.now, h.Name)
	if err != nil || r.State != store.Finished || string(r.Answer.Body) != "made" {
		t.Errorf("by another: %+v, %v", r, err)
	}
}

func contextIsObeyed(t *trial) {
	ctx, cancel := context.WithCancel(t.ctx())
	cancel()
	if _, err := t.keys.Claim(ctx, t.now, t.ask("k")); !errors.Is(err, context.Canceled) {
		t.Errorf("claim: %v", err)
	}
	if _, err := t.keys.Look(ctx, t.now, name("k")); !errors.Is(err, context.Canceled) {
		t.Errorf("look: %v", err)
	}
	t.granted(t.ask("k"))
}
