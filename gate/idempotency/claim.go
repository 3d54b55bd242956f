package idempotency

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/store"
)

// FinishTries is how often the recording of an answer is tried before the answer
// leaves unrecorded.
const FinishTries = 2

const (
	// maxLate bounds the answers that are still to be recorded after they have left.
	maxLate   = 256
	lateEvery = time.Second
)

// errClosed: the Keeper is closed.
var errClosed = errors.New("idempotency: closed")

// Call is an operation that was claimed and has not ended. It renews its lease
// until one of Finish, Release and Abandon ends it; later ones do nothing. Its
// methods may be called from many goroutines.
type Call struct {
	k      *Keeper
	op     Operation
	hold   store.Hold
	flight *flight

	mu    sync.Mutex
	timer *time.Timer
	ended bool
}

// ClaimAt claims the key of an operation. With a nil Call the verdict says what
// stands in the way. The caller's context bounds the asking only: once the claim
// is made it is the Call's.
func (k *Keeper) ClaimAt(ctx context.Context, now time.Time, op *Operation) (*Call, Verdict) {
	if !k.begin() {
		return nil, k.failed(errClosed)
	}
	c := store.Claim{
		Name: op.Name, Fence: store.NewFence(), Lease: k.config.Lease, TTL: max(op.Policy.ttl(), k.config.Lease),
		Fingerprint: op.Fingerprint.AppendTo(nil), Label: op.Label,
	}
	for {
		var got store.Claimed
		// A caller who leaves here must not leave behind a claim that nobody knows of.
		err := k.ask(context.WithoutCancel(ctx), "claim", func(ctx context.Context) (err error) {
			got, err = k.config.Store.Claim(ctx, now, c)
			return err
		})
		switch {
		case errors.Is(err, errDown):
			k.end()
			return nil, k.failed(err)
		case err != nil: // it may have been made all the same
			go func() {
				defer k.end()
				k.free(store.Hold{Name: c.Name, Fence: c.Fence})
			}()
			return nil, k.failed(err)
		case got.Granted:
			if c.Over != 0 {
				k.Count(TakenOver)
			}
			return k.call(now, op, &c), Verdict{}
		}
		v := k.judge(now, op, &got.Record)
		if v.over == 0 || v.over == c.Over {
			k.end()
			if v.over != 0 { // somebody else was quicker to take it over
				v = busy(now, now, k.config.Lease)
			}
			return nil, v
		}
		c.Over = v.over
	}
}

// Take claims the key of an operation unless something stands in the way. Where the
// policy says Wait it stands by before that for the answer of another, for as long
// as ctx lasts. With a nil Call the verdict says what stands in the way, and an answer
// that it brings counts as the event.
func (k *Keeper) Take(ctx context.Context, op *Operation) (*Call, Verdict, Event) {
	for {
		now := time.Now()
		v := k.LookAt(ctx, now, op, false)
		if v.Go() {
			var c *Call
			if c, v = k.ClaimAt(ctx, now, op); c != nil {
				return c, v, Executed
			}
		}
		if v.Reason != comporta.IdempotencyInProgress || !op.Policy.Wait {
			return nil, v, Replayed
		}
		if v, again := k.Await(ctx, op); !again {
			return nil, v, Waited
		}
	}
}

// free releases a claim. One that cannot be released lapses.
func (k *Keeper) free(h store.Hold) {
	err := k.insist(context.Background(), "release", func(ctx context.Context) error {
		return k.config.Store.Release(ctx, time.Now(), h, false)
	})
	if err != nil && !errors.Is(err, store.ErrLost) {
		k.config.Log.Warn("idempotency: a key may not have been freed; if it was claimed, it is in doubt when its lease ends", "name", h.Name.String(), "error", err)
	}
}

func (k *Keeper) call(now time.Time, op *Operation, c *store.Claim) *Call {
	k.Count(Executed)
	call := &Call{k: k, op: *op, hold: store.Hold{Name: c.Name, Fence: c.Fence}}
	call.flight = k.flights.start(now, c.Name, c.Fingerprint, c.Lease)
	call.mu.Lock() // beat may come before the timer is stored
	call.timer = time.AfterFunc(k.config.Lease/3, call.beat)
	call.mu.Unlock()
	return call
}

// beat renews the lease of a call that outlasts a third of it.
func (c *Call) beat() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	k, now := c.k, time.Now()
	err := k.insist(context.Background(), "renew", func(ctx context.Context) error {
		return k.config.Store.Renew(ctx, now, c.hold, k.config.Lease)
	})
	switch {
	case errors.Is(err, store.ErrLost):
		// Somebody took it over, or released it. Finish will say so; who comes with
		// the key until then finds what the store says.
		k.flights.forget(c.hold.Name, c.flight)
		return
	case err != nil:
		k.config.Log.Warn("idempotency: a lease could not be renewed", "error", err)
	default:
		c.flight.leased.Store(now.Add(k.config.Lease).UnixNano())
	}
	c.timer.Reset(k.config.Lease / 3)
}

// over ends the call for one of those who try.
func (c *Call) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return false
	}
	c.ended = true
	c.timer.Stop()
	return true
}

// LeaseLeft is how long others are kept from the key, if nothing more is heard.
func (c *Call) LeaseLeft(now time.Time) time.Duration {
	return c.flight.leaseLeft(now)
}

// Finish records the answer, and the fingerprint where more is known of it than the
// claim said; nil leaves that. It returns when the answer is recorded, or when the
// store has had FinishTries times its budget: the operation has been carried out,
// and its caller is told so in any case. What was not recorded is tried again for
// the length of a lease.
func (c *Call) Finish(a store.Answer, fp *Fingerprint) {
	if !c.over() {
		return
	}
	k := c.k
	f := store.Finish{Answer: a, TTL: c.op.Policy.ttl()}
	fingerprint := c.flight.fingerprint
	if fp != nil {
		f.Fingerprint = fp.AppendTo(nil)
		fingerprint = f.Fingerprint
	}
	if len(a.Body) > k.config.MaxBody {
		f.Answer.Body, f.Answer.Omitted = nil, true
	}
	if f.Answer.Omitted {
		k.Count(BodyNotKept)
	}
	epoch := k.recent.current()
	var err error
	for range FinishTries {
		if err = c.record(f); err == nil || errors.Is(err, store.ErrLost) || errors.Is(err, store.ErrTooLarge) {
			break
		}
	}
	now := time.Now()
	r := &store.Record{
		Name: c.hold.Name, Label: c.op.Label, State: store.Finished, Fence: c.hold.Fence,
		Fingerprint: fingerprint, Finished: now, Expires: now.Add(f.TTL), Answer: f.Answer, BodySize: len(f.Answer.Body),
	}
	switch {
	case err == nil:
		k.index.addAt(now, &c.hold.Name, r.Expires)
		k.recent.addAt(now, r, epoch)
		k.Count(Recorded)
	case errors.Is(err, store.ErrLost):
		k.Count(Lost)
		r = nil // what others hold is what counts
	default:
		k.Count(Unrecorded)
		k.config.Log.Error("idempotency: an answer was not recorded; its key will be in doubt unless the store recovers",
			"route", c.op.Label.Route, "name", c.hold.Name.String(), "error", err)
		if c.later(f) {
			return // with the flight: duplicates here are told to wait meanwhile
		}
	}
	k.flights.finish(c.hold.Name, c.flight, r, false)
	k.end()
}

func (c *Call) record(f store.Finish) error {
	return c.k.insist(context.Background(), "finish", func(ctx context.Context) error {
		return c.k.config.Store.Finish(ctx, time.Now(), c.hold, f)
	})
}

// later goes on to record an answer that has left. The Keeper waits for it when
// it is closed.
func (c *Call) later(f store.Finish) bool {
	k := c.k
	select {
	case k.late <- struct{}{}:
	default:
		return false
	}
	go func() {
		defer k.end()
		defer func() { <-k.late }()
		ctx, cancel := context.WithTimeout(context.Background(), k.config.Lease)
		defer cancel()
		err := context.DeadlineExceeded
		for pause(ctx, lateEvery) {
			if err = c.record(f); err == nil || errors.Is(err, store.ErrLost) {
				break
			}
		}
		if err == nil {
			k.index.addAt(time.Now(), &c.hold.Name, time.Now().Add(f.TTL))
			k.Count(Recorded)
		}
		if err != nil {
			k.flights.breakOff(&c.hold)
		}
		k.flights.finish(c.hold.Name, c.flight, nil, err != nil)
	}()
	return true
}

// Release frees the key: it is certain that nothing was done.
func (c *Call) Release() { c.release(nil) }

// refuse is Release by an answer that is meant for those who stand by too. One whose
// body was not kept is for its caller only.
func (c *Call) refuse(a store.Answer, wait time.Duration) {
	if a.Omitted || len(a.Body) > c.k.config.MaxBody {
		c.release(nil)
		return
	}
	c.release(&refusal{a, wait})
}

func (c *Call) release(r *refusal) {
	if !c.over() {
		return
	}
	c.flight.refusal = r
	c.k.Count(Released)
	c.k.free(c.hold)
	c.k.flights.finish(c.hold.Name, c.flight, nil, false)
	c.k.end()
}

// Abandon leaves the claim as it is: nobody knows what was done. It lapses when
// its lease ends.
func (c *Call) Abandon() {
	if !c.over() {
		return
	}
	c.k.Count(Doubted)
	c.k.flights.breakOff(&c.hold)
	c.k.flights.finish(c.hold.Name, c.flight, nil, true)
	c.k.end()
}

// End ends the call as its answer says. One that is Refused asks to come again after
// wait: 0 means that it does not say, less that it would not help.
func (c *Call) End(e Ending, a store.Answer, wait time.Duration, fp *Fingerprint) {
	switch e {
	case Record:
		c.Finish(a, fp)
	case Release:
		c.Release()
	case Refused:
		c.refuse(a, wait)
	default:
		c.Abandon()
	}
}
