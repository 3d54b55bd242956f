package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/comporta/comporta/store"
)

// laterStore is a shared store that did not answer when the gateway started, and
// is opened when it does: until then every call fails, and what fails is treated
// as each route wants it. A gateway that would not start without its store would
// take down also the routes that need none.
type laterStore struct {
	open opener
	log  *slog.Logger

	mu     sync.RWMutex // guards what follows
	opened store.Keys   // nil: not yet
	closed bool
	stop   context.CancelFunc
	done   chan struct{} // closed when nobody tries any more
}

var errNotOpen = errors.New("comporta: the store has not been opened yet")

const openAgain = 2 * time.Second

func newLaterStore(open opener, log *slog.Logger) *laterStore {
	ctx, stop := context.WithCancel(context.Background())
	l := &laterStore{open: open, log: log, stop: stop, done: make(chan struct{})}
	go l.run(ctx) // Close waits for it
	return l
}

func (l *laterStore) run(ctx context.Context) {
	defer close(l.done)
	for {
		pause(ctx, openAgain)
		if ctx.Err() != nil {
			return
		}
		trying, cancel := context.WithTimeout(ctx, openTimeout)
		s, err := l.open(trying)
		cancel()
		if err != nil {
			continue // it was told at the start
		}
		l.log.Info("the store answers")
		l.mu.Lock()
		l.opened = s
		l.mu.Unlock()
		return
	}
}

func (l *laterStore) get() (store.Keys, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	switch {
	case l.closed:
		return nil, store.ErrClosed
	case l.opened == nil:
		return nil, errNotOpen
	}
	return l.opened, nil
}

// of makes a call of a store that may not be open yet.
func of[T any](l *laterStore, call func(store.Keys) (T, error)) (T, error) {
	s, err := l.get()
	if err != nil {
		var none T
		return none, err
	}
	return call(s)
}

// does is of for a call that returns nothing else.
func does(l *laterStore, call func(store.Keys) error) error {
	_, err := of(l, func(s store.Keys) (struct{}, error) { return struct{}{}, call(s) })
	return err
}

var _ store.Keys = (*laterStore)(nil)

// Secret implements store.Keys, as do the following.
func (l *laterStore) Secret(ctx context.Context) ([]byte, error) {
	return of(l, func(s store.Keys) ([]byte, error) { return s.Secret(ctx) })
}

func (l *laterStore) Claim(ctx context.Context, now time.Time, c store.Claim) (store.Claimed, error) {
	return of(l, func(s store.Keys) (store.Claimed, error) { return s.Claim(ctx, now, c) })
}

func (l *laterStore) Renew(ctx context.Context, now time.Time, h store.Hold, lease time.Duration) error {
	return does(l, func(s store.Keys) error { return s.Renew(ctx, now, h, lease) })
}

func (l *laterStore) Finish(ctx context.Context, now time.Time, h store.Hold, f store.Finish) error {
	return does(l, func(s store.Keys) error { return s.Finish(ctx, now, h, f) })
}

func (l *laterStore) Release(ctx context.Context, now time.Time, h store.Hold, finished bool) error {
	return does(l, func(s store.Keys) error { return s.Release(ctx, now, h, finished) })
}

func (l *laterStore) Look(ctx context.Context, now time.Time, n store.Name) (store.Record, error) {
	return of(l, func(s store.Keys) (store.Record, error) { return s.Look(ctx, now, n) })
}

func (l *laterStore) List(ctx context.Context, now time.Time, q store.Query) (store.Page, error) {
	return of(l, func(s store.Keys) (store.Page, error) { return s.List(ctx, now, q) })
}

func (l *laterStore) Finished(ctx context.Context, now time.Time, yield func(store.Name, time.Time) bool) error {
	return does(l, func(s store.Keys) error { return s.Finished(ctx, now, yield) })
}

func (l *laterStore) Sweep(ctx context.Context, now time.Time, limit int) (int, error) {
	return of(l, func(s store.Keys) (int, error) { return s.Sweep(ctx, now, limit) })
}

func (l *laterStore) Health(ctx context.Context) (store.Health, error) {
	return of(l, func(s store.Keys) (store.Health, error) { return s.Health(ctx) })
}

func (l *laterStore) Close() error {
	l.stop()
	<-l.done
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	if l.opened == nil {
		return nil
	}
	return l.opened.Close()
}
