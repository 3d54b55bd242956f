//go:build integration

package test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate/idempotency"
	"github.com/comporta/comporta/store"
)

// stalled is the store of a process that does not get the processor: it renews no
// lease.
type stalled struct{ store.Keys }

var errStalled = errors.New("stalled")

func (stalled) Renew(context.Context, time.Time, store.Hold, time.Duration) error { return errStalled }

// overtaken is the store of a process between whose look at a lapsed claim and its
// takeover something happens.
type overtaken struct {
	store.Keys

	by func()
}

func (o *overtaken) Claim(ctx context.Context, now time.Time, c store.Claim) (store.Claimed, error) {
	if c.Over != 0 {
		o.by()
	}
	return o.Keys.Claim(ctx, now, c)
}

// process is a Keeper of its own over a store, as in a process of its own, and what it
// has to do.
type process struct {
	*idempotency.Keeper

	op              *idempotency.Operation
	lost, takenOver atomic.Int64
}

func newProcess(t *testing.T, s store.Keys, lease time.Duration, key string) *process {
	t.Helper()
	p := &process{}
	var err error
	p.Keeper, err = idempotency.New(idempotency.Config{Store: s, Lease: lease, Budget: 10 * time.Second, Trace: idempotency.Trace{Event: p.event}})
	if err != nil {
		t.Fatal(err)
	}
	n, err := p.Name(t.Context(), &idempotency.Scope{Method: "POST", Route: "/r", Key: key})
	if err != nil {
		t.Fatal(err)
	}
	p.op = &idempotency.Operation{
		Name: n, Policy: &idempotency.Policy{ExecuteUnknown: true}, Label: store.Label{Key: key},
		Fingerprint: idempotency.NewFingerprint("/", "").WithNoBody(),
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second) // a test that has failed may leave a call
		defer cancel()
		if err := p.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return p
}

func (p *process) event(e idempotency.Event) {
	switch e {
	case idempotency.Lost:
		p.lost.Add(1)
	case idempotency.TakenOver:
		p.takenOver.Add(1)
	default:
	}
}

func (p *process) claim(t *testing.T) (*idempotency.Call, idempotency.Verdict) {
	t.Helper()
	return p.ClaimAt(t.Context(), time.Now(), p.op)
}

func (p *process) mustClaim(t *testing.T) *idempotency.Call {
	t.Helper()
	call, v := p.claim(t)
	if call == nil {
		t.Fatalf("not granted: %+v", v)
	}
	return call
}

// replays holds what a repeat gets against an answer.
func (p *process) replays(t *testing.T, body string) {
	t.Helper()
	v := p.LookAt(t.Context(), time.Now(), p.op, true)
	if v.Replay == nil || string(v.Replay.Answer.Body) != body {
		t.Errorf("a repeat gets %+v, want %s", v, body)
	}
}

func answerOf(body string) store.Answer { return store.Answer{Status: 200, Body: []byte(body)} }

// inProcess runs a case on every engine, opened in this process.
func inProcess(t *testing.T, try func(t *testing.T, s store.Keys, key func(string) string)) {
	t.Helper()
	onEngines(t, func(t *testing.T, p place, key func(string) string) {
		s, err := p.open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		try(t, s, key)
	})
}

// cases/events.md 12: who comes back after another has taken its call over records
// nothing any more.
func TestCase_Events_B12_AnswerAfterATakeoverOnEveryEngine(t *testing.T) {
	inProcess(t, func(t *testing.T, s store.Keys, key func(string) string) {
		stuck, other := newProcess(t, stalled{s}, time.Second, key("k")), newProcess(t, s, time.Second, key("k"))
		first := stuck.mustClaim(t)
		var second *idempotency.Call
		eventually(t, "the call is taken over", func() bool {
			var v idempotency.Verdict
			second, v = other.claim(t)
			if second == nil && v.Reason != comporta.IdempotencyInProgress {
				t.Fatalf("%+v", v)
			}
			return second != nil
		})
		first.Finish(answerOf("first"), nil)
		if v := stuck.LookAt(t.Context(), time.Now(), stuck.op, true); v.Reason != comporta.IdempotencyInProgress {
			t.Errorf("while the second runs: %+v", v)
		}
		second.Finish(answerOf("second"), nil)
		newProcess(t, s, time.Second, key("k")).replays(t, "second")
		if stuck.lost.Load() != 1 || other.takenOver.Load() != 1 || other.lost.Load() != 0 {
			t.Errorf("%d and %d lost, %d taken over", stuck.lost.Load(), other.lost.Load(), other.takenOver.Load())
		}
	})
}

// cases/events.md 16: a call ends between another's look at it and its takeover: that
// is no takeover, and its answer is replayed.
func TestCase_Events_B16_AnswerBeforeATakeoverOnEveryEngine(t *testing.T) {
	inProcess(t, func(t *testing.T, s store.Keys, key func(string) string) {
		stuck := newProcess(t, stalled{s}, time.Second, key("k"))
		first := stuck.mustClaim(t)
		other := newProcess(t, &overtaken{s, func() { first.Finish(answerOf("first"), nil) }}, time.Second, key("k"))
		eventually(t, "the first has ended", func() bool {
			call, v := other.claim(t)
			if call != nil || v.Replay == nil && v.Reason != comporta.IdempotencyInProgress {
				t.Fatalf("%+v, %+v", call, v)
			}
			return v.Replay != nil && string(v.Replay.Answer.Body) == "first"
		})
		newProcess(t, s, time.Second, key("k")).replays(t, "first")
		if stuck.lost.Load() != 0 || other.takenOver.Load() != 0 {
			t.Errorf("%d lost, %d taken over", stuck.lost.Load(), other.takenOver.Load())
		}
	})
}

// cases/events.md 19: who lives keeps its call, however long it takes. The lease is
// long enough for a busy machine to renew it in time.
func TestCase_Events_B19_HeartbeatsOnEveryEngine(t *testing.T) {
	inProcess(t, func(t *testing.T, s store.Keys, key func(string) string) {
		const lease = 2 * time.Second
		long, other := newProcess(t, s, lease, key("k")), newProcess(t, s, lease, key("k"))
		call := long.mustClaim(t)
		for start := time.Now(); time.Since(start) < 3*lease; pause(t, lease/10) {
			if taken, v := other.claim(t); taken != nil || v.Reason != comporta.IdempotencyInProgress {
				t.Fatalf("after %v: %+v, %+v", time.Since(start), taken, v)
			}
		}
		call.Finish(answerOf("late"), nil)
		other.replays(t, "late")
		if long.lost.Load() != 0 || other.takenOver.Load() != 0 {
			t.Errorf("%d lost, %d taken over", long.lost.Load(), other.takenOver.Load())
		}
	})
}
