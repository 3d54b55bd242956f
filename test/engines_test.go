//go:build integration

package test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"
	"sync"
	"testing"

	"github.com/comporta/comporta/gate/ratelimit/redislimit"
	"github.com/comporta/comporta/internal/relay"
	"github.com/comporta/comporta/store"
	"github.com/comporta/comporta/store/pgstore"
	"github.com/comporta/comporta/store/redisstore"
	"github.com/comporta/comporta/store/sqlitestore"
)

// The engines on which keys are kept.
const (
	sqlite   = "sqlite"
	postgres = "postgres"
	redis    = "redis"
)

var engines = []string{sqlite, postgres, redis}

// place is where the keys of a test are kept.
type place struct {
	engine string
	at     string // the path of a file, or the URL of a server that other tests use too
}

func placeOn(t *testing.T, engine string) place {
	t.Helper()
	switch engine {
	case postgres:
		return place{engine, service(t, "COMPORTA_TEST_POSTGRES_URL")}
	case redis:
		return place{engine, service(t, "COMPORTA_TEST_REDIS_URL")}
	default:
		return place{engine, filepath.Join(t.TempDir(), "state.db")}
	}
}

// section is the place as the section of a configuration.
func (p place) section() string {
	if p.engine == sqlite {
		return fmt.Sprintf("{engine: %s, path: %q}", p.engine, p.at)
	}
	return fmt.Sprintf("{engine: %s, url: %q}", p.engine, p.at)
}

// open opens the place in this process.
func (p place) open(ctx context.Context) (store.Keys, error) {
	switch p.engine {
	case postgres:
		return pgstore.Open(ctx, pgstore.Config{URL: p.at})
	case redis:
		options, err := redislimit.ParseURL(p.at)
		if err != nil {
			return nil, err
		}
		return redisstore.Open(ctx, redisstore.Config{Redis: options})
	default:
		return sqlitestore.Open(ctx, sqlitestore.Config{Path: p.at})
	}
}

// breakable is the place as one that can be taken away, and given back with all that
// is in it: by a line that is cut, or another program that keeps a file locked.
func (p place) breakable(t *testing.T) (_ place, away, back func()) {
	t.Helper()
	if p.engine == sqlite {
		away, back = locker(t, p.at)
		return p, away, back
	}
	u, err := url.Parse(p.at)
	if err != nil {
		t.Fatal(err)
	}
	line, err := relay.To(u.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := line.Close(); err != nil {
			t.Error(err)
		}
	})
	u.Host = line.Addr()
	return place{p.engine, u.String()}, line.Break, line.Mend
}

// locker returns how a shell of sqlite3 would lock a file against writers.
func locker(t *testing.T, path string) (lock, unlock func()) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1) // a transaction lies on its connection
	t.Cleanup(func() { _ = db.Close() })
	run := func(statement string) func() {
		return func() {
			t.Helper()
			if _, err := db.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
	}
	return run(`BEGIN IMMEDIATE`), run(`ROLLBACK`)
}

// onEngines runs a case on every engine at once, with keys that nobody else uses:
// most of a case is the wait for a lease.
func onEngines(t *testing.T, try func(t *testing.T, p place, key func(string) string)) {
	t.Helper()
	var all sync.WaitGroup
	for _, engine := range engines {
		all.Go(func() {
			t.Run(engine, func(t *testing.T) {
				own := rand.Text()
				try(t, placeOn(t, engine), func(name string) string { return own + "-" + name })
			})
		})
	}
	all.Wait()
}
