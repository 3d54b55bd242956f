package redisstore

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/comporta/comporta/store"
)

func TestConfigSaysAllProblemsAtOnce(t *testing.T) {
	err := Config{Prefix: "a{b}", Timeout: time.Hour}.Check()
	for _, want := range []string{"Redis.Addrs is empty", `"a{b}"`, "Timeout: 1h0m0s"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want something with %q", err, want)
		}
	}
	if err := (Config{Redis: redis.UniversalOptions{Addrs: []string{"h:1"}}}).Check(); err != nil {
		t.Error(err)
	}
}

// said is an error that a server sends.
type said string

func (s said) Error() string { return string(s) }
func (said) RedisError()     {}

func TestExplain(t *testing.T) {
	for text, want := range map[string]string{
		"READONLY You can't write against a read only replica.": "name the master",
		"NOPERM this user has no permissions":                   "allow this user",
		"MISCONF Redis is configured to save RDB snapshots":     "make room",
		"CLUSTERDOWN The cluster is down":                       "slots",
		"ERR something new":                                     "something new",
	} {
		if err := explain(said(text)); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if err := explain(said("OOM command not allowed when used memory > 'maxmemory'.")); !errors.Is(err, store.ErrFull) || errors.Is(err, ErrUnavailable) {
		t.Errorf("%v", err)
	}
	if err := explain(context.Canceled); errors.Is(err, ErrUnavailable) {
		t.Errorf("the caller left: %v", err)
	}
	for err, want := range map[error]bool{io.EOF: true, said("READONLY"): false, context.DeadlineExceeded: false, nil: false} {
		if dropped(err) != want {
			t.Errorf("%v: %v", err, !want)
		}
	}
}

func TestLosses(t *testing.T) {
	safe := durability{appendonly: "yes", fsync: "always", replicas: "0", memory: "0", policy: "allkeys-lru"}
	if got := safe.losses(); len(got) != 0 {
		t.Errorf("a safe one: %q", got)
	}
	for want, change := range map[string]func(*durability){
		"a second or two":         func(d *durability) { d.fsync = "everysec" },
		"appendfsync no":          func(d *durability) { d.fsync = "no" },
		"keeps nothing on disk":   func(d *durability) { d.appendonly = "no" },
		"snapshots only":          func(d *durability) { d.appendonly, d.snapshots = "no", "3600 1" },
		"a failover loses":        func(d *durability) { d.replicas = "2" },
		"use noeviction":          func(d *durability) { d.memory = "1000" },
		"CONFIG GET is refused":   func(d *durability) { d.refused = true },
		"maxmemory-policy volati": func(d *durability) { d.memory, d.policy = "1", "volatile-ttl" },
	} {
		d := safe
		change(&d)
		if got := d.losses(); len(got) != 1 || !strings.Contains(got[0], strings.TrimPrefix(want, "a second or two")) {
			t.Errorf("%+v: %q, want %q", d, got, want)
		}
	}
}

// Whatever a server says, it is a record, none, or an error.
func FuzzReadAll(f *testing.F) {
	f.Add("1700000000000000", "7", "1700000000000000", "1700000000000001", "1700000000000002", "", "200", "0", "4")
	f.Add("1700000000000000", "7", "1", "1", "1800000000000000", "1", "200", "1", "0")
	f.Add("x", "", "-1", "9223372036854775808", "", "x", "", "", "")
	f.Fuzz(func(t *testing.T, now, fence, created, lease, ends, finished, status, omitted, size string) {
		name := store.Name{1}
		all := []any{now, "header", "body", fence, created, lease, ends, finished, "c", "m", "r", "k", "f", status, omitted, size}
		r, there, err := readAll(name, all)
		if err == nil && there && (r.Name != name || r.LeaseLeft < 0 || string(r.Answer.Body) != "body" || r.Label.Key != "k") {
			t.Errorf("%+v", r)
		}
		if _, there, err := readAll(name, all[:1]); there || err == nil && now == "x" {
			t.Errorf("no record: %v, %v", there, err)
		}
		for n := 2; n < len(all); n++ {
			if n == 3 { // a head that is empty
				continue
			}
			if _, _, err := readAll(name, all[:n]); err == nil {
				t.Errorf("%d values are taken", n)
			}
		}
		for i := range all {
			odd := slices.Clone(all)
			odd[i] = int64(1)
			if _, there, err := readAll(name, odd); there && err == nil {
				t.Errorf("value %d may be a number", i)
			}
		}
	})
}

func TestBucketOf(t *testing.T) {
	for cursor, want := range map[string]int{"": 0, "00": 0, "ff": 255, "0a" + strings.Repeat("0", 62): 10} {
		if got, err := bucketOf(cursor); err != nil || got != want {
			t.Errorf("%s: %d, %v", cursor, got, err)
		}
	}
	for _, cursor := range []string{"0", "zz", "0a0", "100", strings.Repeat("0", 65)} {
		if _, err := bucketOf(cursor); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: %v", cursor, err)
		}
	}
}
