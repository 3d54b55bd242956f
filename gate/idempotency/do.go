package idempotency

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/store"
)

// The errors of Do.
var (
	// ErrInProgress says that the first call under the key still runs; it comes as
	// an *InProgressError.
	ErrInProgress = errors.New("idempotency: the first call with this key still runs")
	// ErrMismatch says that the key was used before for something else.
	ErrMismatch = errors.New("idempotency: the key was used before for something else")
	// ErrUnknown says that nobody knows what became of the first call under the key.
	ErrUnknown = errors.New("idempotency: nobody knows what became of the first call with this key")
)

// InProgressError says when to ask again.
type InProgressError struct{ RetryAfter time.Duration }

func (e *InProgressError) Error() string {
	return fmt.Sprintf("%v: ask again in %v", ErrInProgress, e.RetryAfter)
}

// Is answers to ErrInProgress.
func (*InProgressError) Is(target error) bool { return target == ErrInProgress }

// Task is a call that is to be made once.
type Task struct {
	// Scope is what the key belongs to, such as a tenant and what is done for it.
	Scope string
	Key   string // required
	// Input is what the call depends on: under one key, another is a mismatch. Only
	// a digest of it is kept.
	Input  []byte
	Policy Policy // of which TTL and ExecuteUnknown count
}

// Do calls fn once under a key: who comes with the key again gets what it
// returned, whoever it is and in whatever process, as long as the record lives.
//
// An error of fn says that nothing was done, and frees the key; what may have been
// done is said by an error of ErrUnknown, or by one of the context, and then the
// key is in doubt when its lease ends. So it is after a panic, which goes on. fn
// gets ctx as it is; give it one of Detach if it should outlive its caller.
func (k *Keeper) Do(ctx context.Context, t Task, fn func(context.Context) ([]byte, error)) (out []byte, err error) {
	if t.Key == "" || len(t.Key) > store.MaxLabel {
		return nil, fmt.Errorf("idempotency: a key has 1 to %d bytes, not %d", store.MaxLabel, len(t.Key))
	}
	if err := t.Policy.Check(k.config.Lease); err != nil {
		return nil, err
	}
	scope := Scope{Route: t.Scope, Key: t.Key, Method: "do"}
	n, err := k.Name(ctx, &scope)
	if err != nil {
		return nil, err
	}
	op := Operation{
		Name: n, Policy: &t.Policy, Fingerprint: NewFingerprint("", "").WithBody(t.Input),
		Label: store.Label{Method: scope.Method, Route: Clip(t.Scope), Key: t.Key},
	}
	t.Policy.Wait = false // who comes meanwhile is told so
	call, v, _ := k.Take(ctx, &op)
	if call == nil {
		return k.told(&v)
	}
	defer call.Abandon() // unless it has ended
	out, err = fn(ctx)
	switch {
	case err == nil && len(out) > k.config.MaxBody:
		call.Finish(store.Answer{Omitted: true}, nil)
	case err == nil:
		call.Finish(store.Answer{Body: out}, nil)
	case errors.Is(err, ErrUnknown), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
	default:
		call.Release()
	}
	return out, err
}

// told is what Do returns when it does not call.
func (k *Keeper) told(v *Verdict) ([]byte, error) {
	switch {
	case v.Replay != nil && v.Replay.Answer.Omitted:
		return nil, fmt.Errorf("idempotency: it was done, and what it returned was too large to keep: %w", store.ErrTooLarge)
	case v.Replay != nil:
		k.Count(Replayed)
		return v.Replay.Answer.Body, nil
	}
	switch v.Reason {
	case comporta.IdempotencyInProgress:
		return nil, &InProgressError{RetryAfter: v.Wait}
	case comporta.IdempotencyPayloadMismatch:
		return nil, ErrMismatch
	case comporta.IdempotencyOutcomeUnknown:
		return nil, ErrUnknown
	default:
		return nil, fmt.Errorf("idempotency: the store does not answer: %w", v.Err)
	}
}

// Do is Keeper.Do for a program that has a store and few calls. Use one Keeper for
// many.
func Do(ctx context.Context, s store.Keys, key string, fn func(context.Context) ([]byte, error)) ([]byte, error) {
	k, err := New(Config{Store: s, Index: 1})
	if err != nil {
		return nil, err
	}
	return k.Do(ctx, Task{Key: key}, fn)
}
