package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/comporta/comporta/gate"
	"github.com/comporta/comporta/gate/idempotency"
	"github.com/comporta/comporta/internal/config"
	"github.com/comporta/comporta/store"
	"github.com/comporta/comporta/store/memstore"
	"github.com/comporta/comporta/store/sqlitestore"
)

// keyKeeper keeps idempotency keys. There is one for the life of the process, from
// the first configuration that keeps keys on: what its store and its lease are
// takes effect at a restart. A nil one keeps none.
type keyKeeper struct {
	*idempotency.Keeper

	log   *slog.Logger
	begin sync.Once
	stop  context.CancelFunc
	ctx   context.Context
	wg    sync.WaitGroup
}

// idempotencyOf is the gate's part of the keeping of keys. A configuration that is
// only tried gets a stand-in, and opens nothing.
func (p *parts) idempotencyOf(c *config.Config) (g gate.Idempotency, err error) {
	g = gate.Idempotency{Other: c.KeyPolicy("other"), Linger: c.Upstream.Timeout}
	open, shared, err := engineOf(c)
	if err != nil {
		return g, err
	}
	kc := idempotency.Config{
		Lease: c.Idempotency.Lease, MaxBody: int(c.Idempotency.BodyLimit), Budget: c.Idempotency.Timeout, Log: p.log,
	}
	if !p.connect {
		kc.Store, kc.Index = memstore.New(memstore.Config{}), 1
		g.Keeper, err = idempotency.New(kc)
		return g, err
	}
	if p.keys == nil {
		if p.telemetry != nil {
			kc.Trace = p.telemetry.Keys()
		}
		if p.keys, err = newKeyKeeper(kc, open, shared, &c.Store); err != nil {
			return g, err
		}
	}
	g.Keeper = p.keys.Keeper
	return g, nil
}

func newKeyKeeper(kc idempotency.Config, open opener, shared bool, c *config.Store) (*keyKeeper, error) {
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	s, err := open(ctx)
	switch {
	case err != nil && !shared:
		return nil, err
	case err != nil:
		kc.Log.Error("the store does not answer; until it does, keys are treated as on_store_failure says",
			append(whereOf(c, nil), "error", err.Error())...)
		s = newLaterStore(open, kc.Log)
	default:
		tellStore(ctx, s, kc.Log.With(whereOf(c, s)...))
	}
	kc.Store = s
	k := &keyKeeper{log: kc.Log}
	if k.Keeper, err = idempotency.New(kc); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	k.ctx, k.stop = context.WithCancel(context.Background())
	return k, nil
}

// whereOf says where the state lies: the file, and whether it is a new one, or the
// address without its password. s is nil while a shared store is away.
func whereOf(c *config.Store, s store.Keys) []any {
	where := []any{"engine", c.Engine}
	if f, ok := s.(*sqlitestore.Store); ok {
		path, made := f.File()
		return append(where, "path", path, "new", made)
	}
	if address, err := c.Address(); err == nil && address != "" {
		where = append(where, "url", config.StoreURL(address).String())
	}
	return where
}

// tellStore says in the log of a store how it is, and what a crash can lose of it.
func tellStore(ctx context.Context, s store.Keys, log *slog.Logger) {
	h, err := s.Health(ctx)
	switch {
	case err != nil:
		log.Warn("store", "error", err.Error())
	case h.Loss != "":
		log.Warn("store", "loss", h.Loss)
	default:
		log.Info("store")
	}
}

// run begins the housekeeping, once.
func (k *keyKeeper) run() {
	if k != nil {
		k.begin.Do(func() { k.wg.Go(func() { k.Run(k.ctx) }) })
	}
}

// keysClose bounds the wait for calls under keys that outlive the drain: answers
// that are still to be recorded.
const keysClose = 2 * time.Second

// closeKeys ends the keeping of keys when no request is served any more.
func (a *app) closeKeys() {
	k := a.parts.keys
	if k == nil {
		return
	}
	k.stop()
	k.wg.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), keysClose)
	defer cancel()
	err := k.Close(ctx)
	if err = errors.Join(err, k.Store().Close()); err != nil {
		a.log.Warn("idempotency: what was under way is in doubt when its lease ends", "error", err.Error())
	}
}

// keyStore is the store of keys, for the operator's listener; nil: none are kept.
func (a *app) keyStore() store.Keys {
	if k := a.current.Load().gate.Keeper(); k != nil {
		return k.Store()
	}
	return nil
}
