//go:build integration

package redisstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/comporta/comporta/store"
)

// With appendfsync always a Redis that is killed loses nothing that it answered.
func TestKilledWithAppendfsyncAlways(t *testing.T) {
	o := startOwn(t, "--appendonly", "yes", "--appendfsync", "always")
	s := open(t, Config{Redis: o.options(), Prefix: "p"})
	if h, err := s.Health(t.Context()); err != nil || h.Loss != "" || h.Engine != "redis" {
		t.Errorf("%+v, %v", h, err)
	}
	var mu sync.Mutex
	kept := map[string]bool{}
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for i := 0; ; i++ {
				c := claimOf(fmt.Sprintf("%d.%d", g, i))
				_, err := s.Claim(context.Background(), time.Now(), c)
				if err == nil {
					err = s.Finish(context.Background(), time.Now(), holdOf(c), answerOf(c.Label.Key))
				}
				if err != nil {
					return
				}
				mu.Lock()
				kept[c.Label.Key] = true
				enough := len(kept) == 300
				mu.Unlock()
				if enough {
					o.kill()
				}
			}
		})
	}
	wg.Wait()
	o.start(t)
	for key := range kept {
		r, err := s.Look(t.Context(), time.Now(), claimOf(key).Name)
		if err != nil || string(r.Answer.Body) != key {
			t.Errorf("%s: %+v, %v", key, r, err)
		}
	}
}

// A Redis that has lost its memory gets its secret back from who still runs, so
// that those that start later mean the same by a name.
func TestMemoryLost(t *testing.T) {
	o := startOwn(t, "--appendonly", "no")
	s := open(t, Config{Redis: o.options(), Prefix: "p"})
	granted(t, s, "k")
	if h, err := s.Health(t.Context()); err != nil || !strings.Contains(h.Loss, "keeps nothing on disk") {
		t.Errorf("%+v, %v", h, err)
	}
	before, err := s.Secret(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o.kill()
	if _, err := s.Claim(t.Context(), time.Now(), claimOf("l")); !errors.Is(err, ErrUnavailable) {
		t.Errorf("without a server: %v", err)
	}
	o.start(t)
	s.looked.Store(-int64(time.Hour)) // a second has passed
	granted(t, s, "k")
	later := open(t, Config{Redis: o.options(), Prefix: "p"})
	if after, err := later.Secret(t.Context()); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the secret is another, %v", err)
	}
	if err := s.client.Set(t.Context(), s.secretKey(), store.NewSecret(), 0).Err(); err != nil {
		t.Fatal(err)
	}
	s.looked.Store(-int64(time.Hour))
	for range 2 { // the second one does not look
		if _, err := s.Claim(t.Context(), time.Now(), claimOf("m")); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "start this one again") {
			t.Errorf("with another secret: %v", err)
		}
	}
}

// A Redis that is full takes no new claims; those that run are finished, renewed and
// taken over all the same.
func TestFull(t *testing.T) {
	o := startOwn(t)
	s := open(t, Config{Redis: o.options(), Prefix: "p"})
	runs, lapses, ends := granted(t, s, "runs"), claimOf("lapses"), granted(t, s, "ends")
	lapses.Lease = time.Microsecond
	if got, err := s.Claim(t.Context(), time.Now(), lapses); err != nil || !got.Granted {
		t.Fatal(err)
	}
	if err := s.client.ConfigSet(t.Context(), "maxmemory-policy", "noeviction").Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.client.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	c := claimOf("new")
	if _, err := s.Claim(t.Context(), time.Now(), c); !errors.Is(err, store.ErrFull) {
		t.Errorf("a new claim: %v", err)
	}
	if _, err := s.Look(t.Context(), time.Now(), c.Name); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("it left something: %v", err)
	}
	s.looked.Store(-int64(time.Hour)) // a second has passed
	finish(t, s, runs, "made")
	over := claimOf("lapses")
	over.Over = lapses.Fence
	if got, err := s.Claim(t.Context(), time.Now(), over); err != nil || !got.Granted {
		t.Errorf("a takeover: %+v, %v", got, err)
	}
	if err := s.Release(t.Context(), time.Now(), ends, false); err != nil {
		t.Errorf("a release: %v", err)
	}
	if err := s.client.ConfigSet(t.Context(), "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
	granted(t, s, "new")
}

// A Redis that hangs costs the timeout.
func TestHangs(t *testing.T) {
	o := startOwn(t)
	s := open(t, Config{Redis: o.options(), Timeout: 200 * time.Millisecond})
	granted(t, s, "before")
	o.signal(t, syscall.SIGSTOP)
	defer o.signal(t, syscall.SIGCONT)
	c := claimOf("k")
	began := time.Now()
	if _, err := s.Claim(t.Context(), time.Now(), c); !errors.Is(err, ErrUnavailable) {
		t.Errorf("%v", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	o.signal(t, syscall.SIGCONT)
	until(t, "it is granted, whether it was done before or not", func() bool {
		got, err := s.Claim(t.Context(), time.Now(), c)
		return err == nil && got.Granted
	})
}

func TestWhatTheServerSaysOfItself(t *testing.T) {
	o := startOwn(t, "--appendonly", "yes")
	s := open(t, Config{Redis: o.options()})
	set := func(pairs ...string) {
		t.Helper()
		for i := 0; i < len(pairs); i += 2 {
			if err := s.client.ConfigSet(t.Context(), pairs[i], pairs[i+1]).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	says := func(s *Store, want string) {
		t.Helper()
		h, err := s.Health(t.Context())
		if err != nil || !strings.Contains(h.Loss, want) {
			t.Errorf("%q, %v, want %q", h.Loss, err, want)
		}
	}
	set("appendfsync", "everysec")
	says(s, "last second or two")
	set("appendfsync", "no")
	says(s, "appendfsync no")
	set("appendfsync", "always", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lru")
	says(s, "use noeviction")
	set("maxmemory-policy", "noeviction")
	if h, err := s.Health(t.Context()); err != nil || h.Loss != "" {
		t.Errorf("%+v, %v", h, err)
	}
	if err := s.client.Do(t.Context(), "ACL", "SETUSER", "few", "on", ">secret", "~*", "+@all", "-@admin", "-@dangerous").Err(); err != nil {
		t.Fatal(err)
	}
	u := o.options()
	u.Username, u.Password = "few", "secret"
	few := open(t, Config{Redis: u})
	says(few, "does not tell")
	granted(t, few, "k")

	replica := startOwn(t, "--replicaof", "127.0.0.1", strings.TrimPrefix(o.addr, "127.0.0.1:"))
	until(t, "a replica", func() bool {
		h, err := s.Health(t.Context())
		return err == nil && strings.Contains(h.Loss, "a failover loses")
	})
	if _, err := Open(t.Context(), Config{Redis: replica.options()}); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "name the master") {
		t.Errorf("a replica: %v", err)
	}
}

// cases/events.md B22, where the database has the clock: those of the processes play
// no part.
func TestCase_Events_B22_SkewedClocks(t *testing.T) {
	o := where(t, "COMPORTA_TEST_REDIS_URL")
	under := prefix()
	ahead, behind := open(t, Config{Redis: o, Prefix: under}), open(t, Config{Redis: o, Prefix: under})
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
}

// An index forgets what is over, and ends with its last record.
func TestIndexesDoNotGrow(t *testing.T) {
	s := open(t, Config{Redis: where(t, "COMPORTA_TEST_REDIS_URL")})
	short := func(i int) store.Claim {
		c := claimOf(fmt.Sprint("key", i)) // all in the bucket of 'k'
		c.Lease, c.TTL = time.Millisecond, time.Millisecond
		return c
	}
	for i := range 500 {
		if _, err := s.Claim(t.Context(), time.Now(), short(i)); err != nil {
			t.Fatal(err)
		}
	}
	size := func() int64 {
		n, err := s.client.ZCard(t.Context(), s.index('k')).Result()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := size(); n > 100 {
		t.Errorf("%d of 500 that are over", n)
	}
	until(t, "it ends", func() bool {
		n, err := s.client.Exists(t.Context(), s.index('k')).Result()
		return err == nil && n == 0
	})
	c := claimOf("key")
	if _, err := s.Claim(t.Context(), time.Now(), c); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Claim(t.Context(), time.Now(), short(0)); err != nil {
		t.Fatal(err)
	}
	if left, err := s.client.PTTL(t.Context(), s.index('k')).Result(); err != nil || left < c.TTL-time.Minute {
		t.Errorf("it ends in %v, before its record: %v", left, err)
	}
	for _, key := range []string{s.secretKey()} {
		if left, err := s.client.PTTL(t.Context(), key).Result(); err != nil || left != -1 {
			t.Errorf("%s ends in %v, %v", key, left, err)
		}
	}
}

// A page that finds little among much says where to go on.
func TestLongListing(t *testing.T) {
	s := open(t, Config{Redis: where(t, "COMPORTA_TEST_REDIS_URL")})
	const records = maxLooked + 500
	var wg sync.WaitGroup
	for g := range 20 {
		wg.Go(func() {
			for i := g; i < records; i += 20 {
				c := claimOf(fmt.Sprint(i))
				c.Name[0], c.Name[1], c.Name[2] = byte(i%3), byte(i), byte(i>>8)
				if i == 0 {
					c.Name[0] = 0xff
					c.Label.Key = "needle"
				}
				if _, err := s.Claim(context.Background(), time.Now(), c); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	found, pages := 0, 0
	for cursor := ""; ; {
		p, err := s.List(t.Context(), time.Now(), store.Query{Key: "needle", Cursor: cursor})
		if err != nil {
			t.Fatal(err)
		}
		pages++
		found += len(p.Records)
		if cursor = p.Next; cursor == "" {
			break
		}
	}
	if found != 1 || pages < 2 {
		t.Errorf("found %d times on %d pages", found, pages)
	}
	n := 0
	for cursor := ""; ; {
		p, err := s.List(t.Context(), time.Now(), store.Query{Limit: 999, Cursor: cursor})
		if err != nil {
			t.Fatal(err)
		}
		n += len(p.Records)
		if cursor = p.Next; cursor == "" {
			break
		}
	}
	if n != records {
		t.Errorf("%d of %d", n, records)
	}
	if h, err := s.Health(t.Context()); err != nil || h.Records != records {
		t.Errorf("%+v, %v", h, err)
	}
}

// What lies under the name of the secret and is none is left alone.
func TestForeignPrefix(t *testing.T) {
	o := where(t, "COMPORTA_TEST_REDIS_URL")
	under := prefix()
	client := redis.NewClient(&redis.Options{Addr: o.Addrs[0]})
	defer client.Close()
	if err := client.Set(t.Context(), under+":secret", "of somebody else", time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Config{Redis: o, Prefix: under}); err == nil || !strings.Contains(err.Error(), "another prefix") {
		t.Errorf("%v", err)
	}
}
