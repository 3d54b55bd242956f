package idempotency

import (
	"context"
	"errors"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/store"
)

// Operation is one request under a key.
type Operation struct {
	Name        store.Name
	Label       store.Label
	Fingerprint Fingerprint
	Policy      *Policy
}

// Verdict is how an operation stands to the record of its key.
type Verdict struct {
	// Reason is why it may not run: one of the reasons of idempotency.
	Reason comporta.Reason
	// Detail says more of the Reason; DetailNone: nothing.
	Detail comporta.Detail
	// Wait is when to ask again, for a reason that is retryable.
	Wait time.Duration
	// Replay is the record whose answer it gets; nil: none.
	Replay *store.Record
	// Refusal is what the first was told while this one stood by: nothing was done,
	// and after Wait the key may be claimed; a Wait below 0 says that it would not help.
	// nil: none.
	Refusal *store.Answer
	// Compare holds the body against that of the record first; nil: it need not be.
	Compare *Compare
	// Err is why the store could not be asked.
	Err error

	over int64 // the lapsed fence that a claim may take over
}

// Go reports whether the operation may be claimed.
func (v *Verdict) Go() bool {
	return v.Reason == comporta.ReasonNone && v.Replay == nil && v.Refusal == nil
}

// LookAt says how an operation stands, where that can be told without a claim and
// is worth asking for: seen says that the key was met before. What runs here is
// known without the store. A verdict to go says nothing yet: a claim may find a
// record all the same.
func (k *Keeper) LookAt(ctx context.Context, now time.Time, op *Operation, seen bool) Verdict {
	if fl := k.flights.find(&op.Name); fl != nil {
		if op.Fingerprint.like(fl.fingerprint) == different {
			return op.mismatch(fl.fingerprint)
		}
		return busy(now, fl.started, fl.leaseLeft(now))
	}
	if o, ok := k.flights.otherAt(now, &op.Name); ok {
		if op.Fingerprint.like(o.fingerprint) == different {
			return op.mismatch(o.fingerprint)
		}
		return busy(now, o.started, o.leased.Sub(now))
	}
	held, epoch := k.recent.getAt(now, &op.Name)
	if held != nil {
		return k.judge(now, op, held)
	}
	if !seen && !k.index.hasAt(now, &op.Name) {
		return Verdict{}
	}
	var r store.Record
	err := k.ask(ctx, "look", func(ctx context.Context) (err error) {
		r, err = k.config.Store.Look(ctx, now, op.Name)
		return err
	})
	switch {
	case errors.Is(err, store.ErrNotFound):
		k.index.remove(&op.Name)
		return Verdict{}
	case err != nil:
		return k.failed(err)
	}
	if r.State == store.Finished {
		k.recent.addAt(now, &r, epoch)
	}
	return k.judge(now, op, &r)
}

// mismatch is the verdict on an operation that is not the recorded one.
func (op *Operation) mismatch(recorded []byte) Verdict {
	return Verdict{Reason: comporta.IdempotencyPayloadMismatch, Detail: op.Fingerprint.difference(recorded)}
}

// ReadKey reads the key of a request that was sent in these lines. It is "" with a
// verdict to go where there is none and none is required.
func (p *Policy) ReadKey(lines []string) (key string, v Verdict) {
	if len(lines) == 0 {
		if p.Require {
			v.Reason = comporta.IdempotencyKeyMissing
		}
		return "", v
	}
	key, ok := comporta.ParseKey(lines[0])
	if !ok || len(lines) > 1 {
		return "", Verdict{Reason: comporta.IdempotencyKeyInvalid, Detail: comporta.KeyFault(lines)}
	}
	return key, v
}

// failed is the verdict when the store cannot be asked.
func (k *Keeper) failed(err error) Verdict {
	return Verdict{Reason: comporta.IdempotencyUnavailable, Err: err}
}

// busy is the verdict on an operation that runs. What has run for a while will
// run for about as long again, so that a client asks seldom and is not made to
// wait for the whole lease. With a zero start it has broken off: there is no news
// before the lease ends. One whose lease is over is still being recorded.
func busy(now, started time.Time, lease time.Duration) Verdict {
	const least = time.Second
	wait := least
	if lease > 0 {
		wait = max(min(max(now.Sub(started), least), lease), time.Millisecond)
	}
	return Verdict{Reason: comporta.IdempotencyInProgress, Wait: wait}
}

// judge reads a record.
func (k *Keeper) judge(now time.Time, op *Operation, r *store.Record) Verdict {
	likeness := op.Fingerprint.like(r.Fingerprint)
	if likeness == different {
		return op.mismatch(r.Fingerprint)
	}
	switch r.State {
	case store.Finished:
		k.index.addAt(now, &op.Name, now.Add(op.Policy.ttl())) // about; it is a hint
		v := Verdict{Replay: r}
		if likeness == undecided {
			v.Compare = NewCompare(r.Fingerprint)
		}
		return v
	case store.Lapsed:
		if op.Policy.ExecuteUnknown {
			return Verdict{over: r.Fence}
		}
		return Verdict{Reason: comporta.IdempotencyOutcomeUnknown}
	default:
		return busy(now, k.flights.note(now, r), r.LeaseLeft)
	}
}

// Await stands by until the operation that runs under the key has ended. again
// says that how it stands has to be asked anew; otherwise the verdict is its
// answer, or why there is none.
func (k *Keeper) Await(ctx context.Context, op *Operation) (v Verdict, again bool) {
	fl, err := k.flights.await(ctx, op.Name)
	now := time.Now()
	switch {
	case errors.Is(err, errCrowded):
		k.Count(Crowded)
		return busy(now, now, k.config.Lease), false
	case err != nil:
		return busy(now, now, k.config.Lease), false
	case fl == nil: // it runs elsewhere
		return Verdict{}, true
	case fl.answer != nil:
		return k.judge(now, op, fl.answer), false
	case fl.refusal != nil:
		return Verdict{Refusal: &fl.refusal.answer, Wait: fl.refusal.wait}, false
	case fl.doubt:
		return busy(now, time.Time{}, fl.leaseLeft(now)), false
	}
	return Verdict{}, true
}
