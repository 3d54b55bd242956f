package main

import (
	"context"
	"fmt"
	"time"

	"github.com/comporta/comporta/gate/ratelimit/redislimit"
	"github.com/comporta/comporta/internal/config"
	"github.com/comporta/comporta/store"
	"github.com/comporta/comporta/store/memstore"
	"github.com/comporta/comporta/store/pgstore"
	"github.com/comporta/comporta/store/redisstore"
	"github.com/comporta/comporta/store/sqlitestore"
)

// opener opens the engine that a configuration names. The error of engineOf says
// what is wrong with the words; that of the opener, with the world.
type opener func(context.Context) (store.Keys, error)

func engineOf(c *config.Config) (open opener, shared bool, err error) {
	address, err := c.Store.Address()
	if err != nil {
		return nil, false, err
	}
	within := c.Idempotency.Timeout
	switch c.Store.Engine {
	case config.EngineMemory:
		mc := memstore.Config{MaxRecords: c.Store.MaxRecords, MaxBytes: int64(c.Store.MaxBytes)}
		return func(context.Context) (store.Keys, error) { return memstore.New(mc), nil }, false, nil
	case config.EnginePostgres:
		pc := pgstore.Config{URL: address, Timeout: within}
		return opening(pc, pgstore.Open), true, pc.Check()
	case config.EngineRedis:
		options, err := redislimit.ParseURL(address)
		if err != nil {
			return nil, true, fmt.Errorf("store.url: %w", err)
		}
		rc := redisstore.Config{Redis: options, Timeout: within}
		return opening(rc, redisstore.Open), true, rc.Check()
	default:
		sc := sqlitestore.Config{Path: c.Store.Path, MaxBytes: int64(c.Store.MaxBytes)}
		return opening(sc, sqlitestore.Open), false, sc.Check()
	}
}

// opening is the opener of an engine.
func opening[C any, S store.Keys](c C, open func(context.Context, C) (S, error)) opener {
	return func(ctx context.Context) (store.Keys, error) {
		s, err := open(ctx, c)
		if err != nil {
			return nil, err // and not a store.Keys that holds a nil
		}
		return s, nil
	}
}

// openTimeout bounds one attempt to open a store: making its tables may take a while.
const openTimeout = 15 * time.Second
