//go:build integration

package pgstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/comporta/comporta/store"
)

// The answer to a claim is lost. Whether it was done is not known to who asked;
// asked again it is granted, and to nobody else.
func TestLostAnswer(t *testing.T) {
	line, address := through(t)
	name := schema(t)
	s := open(t, Config{URL: address, Schema: name, Timeout: 500 * time.Millisecond, Conns: 1})
	direct := open(t, Config{Schema: name})
	c := claimOf("warm") // what is muted then is a statement, and not its preparation
	if _, err := s.Claim(t.Context(), time.Now(), c); err != nil {
		t.Fatal(err)
	}
	if err := s.Finish(t.Context(), time.Now(), holdOf(c), answerOf("")); err != nil {
		t.Fatal(err)
	}
	c = claimOf("k")
	line.Mute(true)
	if _, err := s.Claim(t.Context(), time.Now(), c); !errors.Is(err, ErrUnavailable) {
		t.Fatalf("%v", err)
	}
	until(t, "the claim is there", func() bool {
		r, err := direct.Look(t.Context(), time.Now(), c.Name)
		return err == nil && r.Fence == c.Fence
	})
	line.Mute(false)
	line.Cut()
	if got, err := direct.Claim(t.Context(), time.Now(), claimOf("k")); err != nil || got.Granted {
		t.Errorf("another: %+v, %v", got, err)
	}
	if got, err := s.Claim(t.Context(), time.Now(), c); err != nil || !got.Granted {
		t.Errorf("asked again: %+v, %v", got, err)
	}
	if err := s.Finish(t.Context(), time.Now(), holdOf(claimOf("k")), answerOf("")); !errors.Is(err, store.ErrLost) { // prepares it anew
		t.Fatal(err)
	}
	line.Mute(true)
	if err := s.Finish(t.Context(), time.Now(), holdOf(c), answerOf("made")); !errors.Is(err, ErrUnavailable) {
		t.Fatalf("%v", err)
	}
	until(t, "the answer is there", func() bool {
		r, err := direct.Look(t.Context(), time.Now(), c.Name)
		return err == nil && r.State == store.Finished
	})
	line.Mute(false)
	line.Cut()
	if err := s.Finish(t.Context(), time.Now(), holdOf(c), answerOf("made")); err != nil {
		t.Errorf("finished again: %v", err)
	}
	if r, err := direct.Look(t.Context(), time.Now(), c.Name); err != nil || string(r.Answer.Body) != "made" {
		t.Errorf("%+v, %v", r, err)
	}
}

// Connections break, by the line and by the server, while sixty-four callers of
// two stores claim the same keys: each key is granted once, and finished once.
func TestConnectionsBreak(t *testing.T) {
	line, address := through(t)
	name := schema(t)
	stores := []*Store{open(t, Config{URL: address, Schema: name}), open(t, Config{URL: address, Schema: name})}
	const keys = 60
	var granted [keys]atomic.Int64
	ctx, stop := context.WithCancel(context.Background())
	var breaker, callers sync.WaitGroup
	breaker.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if n%2 == 0 {
				line.Cut()
			} else {
				admin(t, fmt.Sprintf(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%%%s%%' AND pid <> pg_backend_pid()`, name))
			}
		}
	})
	for i := range 64 {
		s := stores[i%2]
		callers.Go(func() {
			for _, k := range rand.Perm(keys) {
				c := claimOf(fmt.Sprint("k", k))
				got, err := s.Claim(ctx, time.Now(), c)
				for err != nil { // the connection broke more often than it is tried again
					if !errors.Is(err, ErrUnavailable) {
						t.Error(err)
						return
					}
					got, err = s.Claim(ctx, time.Now(), c)
				}
				if !got.Granted {
					continue
				}
				granted[k].Add(1)
				for err = errLost; err != nil; {
					if err = s.Finish(ctx, time.Now(), holdOf(c), answerOf(fmt.Sprint("k", k))); err != nil && !errors.Is(err, ErrUnavailable) {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	callers.Wait()
	stop()
	breaker.Wait()
	for k := range granted {
		if n := granted[k].Load(); n != 1 {
			t.Errorf("key %d is granted %d times", k, n)
		}
		r, err := stores[0].Look(context.Background(), time.Now(), claimOf(fmt.Sprint("k", k)).Name)
		if err != nil || string(r.Answer.Body) != fmt.Sprint("k", k) {
			t.Errorf("key %d: %+v, %v", k, r, err)
		}
	}
}

// A database that is away is an error at once, or after the timeout, and is found
// when it is back.
func TestAway(t *testing.T) {
	line, address := through(t)
	s := open(t, Config{URL: address, Timeout: 5 * time.Second})
	line.Break()
	for range 3 {
		began := time.Now()
		_, err := s.Claim(t.Context(), time.Now(), claimOf("k"))
		if !errors.Is(err, ErrUnavailable) {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 7*time.Second {
			t.Errorf("it took %v", took)
		}
	}
	if _, err := s.Health(t.Context()); !errors.Is(err, ErrUnavailable) {
		t.Errorf("health: %v", err)
	}
	line.Mend()
	if got, err := s.Claim(t.Context(), time.Now(), claimOf("k")); err != nil || !got.Granted {
		t.Errorf("%+v, %v", got, err)
	}
}

// cases/events.md B22, where the database has the clock: those of the processes play
// no part: one an hour ahead and one an hour
// behind agree on who runs.
func TestCase_Events_B22_SkewedClocks(t *testing.T) {
	name := schema(t)
	ahead, behind := open(t, Config{Schema: name}), open(t, Config{Schema: name})
	c := claimOf("k")
	c.Lease = time.Minute
	if got, err := behind.Claim(t.Context(), time.Now().Add(-time.Hour), c); err != nil || !got.Granted {
		t.Fatalf("%+v, %v", got, err)
	}
	other := claimOf("k")
	other.Over = c.Fence
	got, err := ahead.Claim(t.Context(), time.Now().Add(time.Hour), other)
	if err != nil || got.Granted || got.Record.State != store.Running || got.Record.LeaseLeft > time.Minute {
		t.Errorf("%+v, %v", got, err)
	}
	later(t, name, time.Minute)
	if got, err := behind.Claim(t.Context(), time.Now().Add(-time.Hour), other); err != nil || !got.Granted {
		t.Errorf("when the lease is over: %+v, %v", got, err)
	}
}

// A row that somebody keeps locked fails a claim after the timeout, and does not
// keep its connection.
func TestLockedRow(t *testing.T) {
	name := schema(t)
	s := open(t, Config{Schema: name, Timeout: 300 * time.Millisecond, Conns: 2})
	c := claimOf("k")
	if _, err := s.Claim(t.Context(), time.Now(), c); err != nil {
		t.Fatal(err)
	}
	later(t, name, 48*time.Hour)
	conn, err := pgx.Connect(t.Context(), where(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), fmt.Sprintf(`SELECT FROM %q.idempotency FOR UPDATE`, name)); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if _, err := s.Claim(t.Context(), time.Now(), claimOf("k")); !errors.Is(err, ErrUnavailable) {
			t.Fatal(err)
		}
	}
	if got, err := s.Claim(t.Context(), time.Now(), claimOf("another")); err != nil || !got.Granted {
		t.Errorf("%+v, %v", got, err)
	}
}

// Processes that start together make the tables once, with one secret.
func TestOpenedTogether(t *testing.T) {
	name := schema(t)
	var wg sync.WaitGroup
	ways := []string{where(t), service(t, "COMPORTA_TEST_PGBOUNCER_URL") + "&default_query_exec_mode=exec"}
	secrets := make([][]byte, 12)
	for i := range secrets {
		wg.Go(func() {
			s, err := Open(context.Background(), Config{URL: ways[i%2], Schema: name, Conns: 2, Timeout: time.Minute})
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			secrets[i], err = s.Secret(context.Background())
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, secret := range secrets {
		if !bytes.Equal(secret, secrets[0]) {
			t.Errorf("secrets %x and %x", secrets[0], secret)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	name := schema(t)
	if err := open(t, Config{Schema: name}).Close(); err != nil {
		t.Fatal(err)
	}
	refused := func(want error, text string) {
		t.Helper()
		s, err := Open(t.Context(), Config{URL: where(t), Schema: name})
		if err == nil {
			t.Fatal("opened", s.Close())
		}
		if !errors.Is(err, want) || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %v with %q", err, want, text)
		}
	}
	admin(t, fmt.Sprintf(`INSERT INTO %q.migration VALUES (99)`, name))
	refused(ErrNewer, "version 99")
	admin(t, fmt.Sprintf(`DELETE FROM %q.migration WHERE version = 99`, name), fmt.Sprintf(`DELETE FROM %q.meta`, name))
	refused(ErrDamaged, "backup")

	_, err := Open(t.Context(), Config{URL: service(t, "COMPORTA_TEST_PGBOUNCER_URL")})
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "default_query_exec_mode=exec") {
		t.Errorf("through a pooler as if there were none: %v", err)
	}
	_, err = Open(t.Context(), Config{URL: strings.Replace(where(t), "/comporta?", "/none?", 1)})
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "create the database") {
		t.Errorf("%v", err)
	}
}

// A role without the right to create anything opens what another has made.
func TestARoleOfFewRights(t *testing.T) {
	name := schema(t)
	u, err := url.Parse(where(t))
	if err != nil {
		t.Fatal(err)
	}
	role := name + "_role"
	admin(t, fmt.Sprintf(`CREATE ROLE %q LOGIN`, role))
	t.Cleanup(func() { admin(t, fmt.Sprintf(`DROP OWNED BY %q`, role), fmt.Sprintf(`DROP ROLE %q`, role)) })
	u.User = url.User(role)
	_, err = Open(t.Context(), Config{URL: u.String(), Schema: name, Timeout: time.Minute})
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "grant this role the right") {
		t.Errorf("an empty database: %v", err)
	}
	open(t, Config{Schema: name})
	admin(t, fmt.Sprintf(`GRANT USAGE ON SCHEMA %q TO %q`, name, role),
		fmt.Sprintf(`GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %q TO %q`, name, role))
	s := open(t, Config{URL: u.String(), Schema: name})
	c := claimOf("k")
	if got, err := s.Claim(t.Context(), time.Now(), c); err != nil || !got.Granted {
		t.Fatalf("%+v, %v", got, err)
	}
	if err := s.Finish(t.Context(), time.Now(), holdOf(c), answerOf("made")); err != nil {
		t.Error(err)
	}
	if h, err := s.Health(t.Context()); err != nil || h.Bytes <= 0 || h.Loss != "" {
		t.Errorf("%+v, %v", h, err)
	}
}

// The pool is bounded, however many call.
func TestFewConnections(t *testing.T) {
	name := schema(t)
	s := open(t, Config{URL: where(t) + "&application_name=" + name, Schema: name, Conns: 3})
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			for k := range 5 {
				if _, err := s.Claim(context.Background(), time.Now(), claimOf(fmt.Sprint(i, " ", k))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	var n int
	if err := s.pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE application_name = $1`, name).Scan(&n); err != nil || n > 3 {
		t.Errorf("%d connections, %v", n, err)
	}
}

// A label that PostgreSQL would not take is no reason to refuse a claim.
func TestLabelsOfAnyBytes(t *testing.T) {
	s := open(t, Config{})
	c := claimOf("k")
	c.Label.Key = "a\x00b\xffc"
	if got, err := s.Claim(t.Context(), time.Now(), c); err != nil || !got.Granted {
		t.Fatalf("%+v, %v", got, err)
	}
	if r, err := s.Look(t.Context(), time.Now(), c.Name); err != nil || r.Label.Key != "a\uFFFDb\uFFFDc" {
		t.Errorf("%+v, %v", r.Label, err)
	}
}
