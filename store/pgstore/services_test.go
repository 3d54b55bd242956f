//go:build integration

package pgstore

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/comporta/comporta/internal/relay"
	"github.com/comporta/comporta/store"
)

// where reads the address of the server that test/services started.
func where(tb testing.TB) string {
	tb.Helper()
	return service(tb, "COMPORTA_TEST_POSTGRES_URL")
}

func service(tb testing.TB, name string) string {
	tb.Helper()
	text := os.Getenv(name)
	if text == "" {
		tb.Skipf("%s is not set: run `make integration`", name)
	}
	return text
}

var schemas atomic.Int64

// schema is one that nobody else uses, and that is dropped at the end.
func schema(tb testing.TB) string {
	tb.Helper()
	name := fmt.Sprintf("test_%d_%d_%d", os.Getpid(), time.Now().UnixNano(), schemas.Add(1))
	tb.Cleanup(func() { admin(tb, `DROP SCHEMA IF EXISTS "`+name+`" CASCADE`) })
	return name
}

// admin runs statements beside the store.
func admin(tb testing.TB, statements ...string) {
	tb.Helper()
	conn, err := pgx.Connect(context.Background(), where(tb))
	if err != nil {
		tb.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, s := range statements {
		if _, err := conn.Exec(context.Background(), s); err != nil {
			tb.Fatalf("%s: %v", s, err)
		}
	}
}

// open opens a store, in a schema of its own unless c names one, and closes it at
// the end.
func open(tb testing.TB, c Config) *Store {
	tb.Helper()
	orDefault(&c.URL, where(tb))
	orDefault(&c.Timeout, time.Minute) // the machine may be busy
	if c.Schema == "" {
		c.Schema = schema(tb)
	}
	s, err := Open(context.Background(), c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

func claimOf(key string) store.Claim {
	c := store.Claim{
		Fence: store.NewFence(), Lease: time.Hour, TTL: 24 * time.Hour,
		Label: store.Label{Client: "c", Method: "POST", Route: "orders", Key: key},
	}
	copy(c.Name[:], key)
	return c
}

func holdOf(c store.Claim) store.Hold { return store.Hold{Name: c.Name, Fence: c.Fence} }

func answerOf(body string) store.Finish {
	return store.Finish{TTL: 24 * time.Hour, Answer: store.Answer{Status: 200, Body: []byte(body)}}
}

// through returns a line to the server that can break, and the URL that leads over it.
func through(t *testing.T) (*relay.Relay, string) {
	t.Helper()
	u, err := url.Parse(where(t))
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
	return line, u.String()
}

// until waits for what another process does.
func until(tb testing.TB, what string, met func() bool) {
	tb.Helper()
	tick, end := time.NewTicker(2*time.Millisecond), time.NewTimer(time.Minute)
	defer tick.Stop()
	defer end.Stop()
	for !met() {
		select {
		case <-tick.C:
		case <-end.C:
			tb.Fatalf("never: %s", what)
		}
	}
}
