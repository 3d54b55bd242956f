package redisstore

import (
	"context"
	"errors"
	"io"
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
func FuzzPairs(f *testing.F) {
	f.Add("1700000000000000", "fence", "7", "ends", "1800000000000000", "name", strings.Repeat("n", 32))
	f.Add("x", "fence", "", "ends", "-1", "name", "")
	f.Add("0", "fence", "9223372036854775808", "ends", "1", "finished", "")
	f.Fuzz(func(t *testing.T, now, k1, v1, k2, v2, k3, v3 string) {
		r, there, err := pairs([]any{now, k1, v1, k2, v2, k3, v3})
		if err == nil && there && (r.Name == store.Name{} && v3 != strings.Repeat("\x00", 32) || r.LeaseLeft < 0) {
			t.Errorf("%+v", r)
		}
		for _, odd := range [][]any{{}, {now, k1}, {int64(1), k1, v1}, {now, k1, int64(1)}, {nil}} {
			if _, _, err := pairs(odd); err == nil {
				t.Errorf("%v is taken", odd)
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
