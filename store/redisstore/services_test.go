//go:build integration

package redisstore

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/comporta/comporta/gate/ratelimit/redislimit"
	"github.com/comporta/comporta/store"
)

// where reads the address of a service that test/services started.
func where(tb testing.TB, name string) redis.UniversalOptions {
	tb.Helper()
	text := os.Getenv(name)
	if text == "" {
		tb.Skipf("%s is not set: run `make integration`", name)
	}
	o, err := redislimit.ParseURL(text)
	if err != nil {
		tb.Fatal(err)
	}
	return o
}

var prefixes atomic.Int64

// prefix is one that nobody else uses.
func prefix() string {
	return fmt.Sprintf("test:%d:%d:%d", os.Getpid(), time.Now().UnixNano(), prefixes.Add(1))
}

// open opens a store, under a prefix of its own unless c names one, and closes it at
// the end.
func open(tb testing.TB, c Config) *Store {
	tb.Helper()
	orDefault(&c.Prefix, prefix())
	orDefault(&c.Timeout, maxTimeout) // the machine may be busy
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

func granted(tb testing.TB, s *Store, key string) store.Hold {
	tb.Helper()
	c := claimOf(key)
	got, err := s.Claim(context.Background(), time.Now(), c)
	if err != nil || !got.Granted {
		tb.Fatalf("claim of %s: %+v, %v", key, got, err)
	}
	return holdOf(c)
}

func finish(tb testing.TB, s *Store, h store.Hold, body string) {
	tb.Helper()
	if err := s.Finish(context.Background(), time.Now(), h, answerOf(body)); err != nil {
		tb.Fatalf("finish: %v", err)
	}
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

// own is a Redis of one test, which may be killed.
type own struct {
	addr string
	dir  string
	args []string
	cmd  *exec.Cmd
}

func startOwn(tb testing.TB, args ...string) *own {
	tb.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		tb.Skip("redis-server is not installed: run `make integration`")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	o := &own{addr: l.Addr().String(), dir: tb.TempDir(), args: args}
	if err := l.Close(); err != nil {
		tb.Fatal(err)
	}
	o.start(tb)
	tb.Cleanup(o.kill)
	return o
}

func (o *own) options() redis.UniversalOptions {
	return redis.UniversalOptions{Addrs: []string{o.addr}}
}

func (o *own) start(tb testing.TB) {
	tb.Helper()
	_, port, err := net.SplitHostPort(o.addr)
	if err != nil {
		tb.Fatal(err)
	}
	o.cmd = exec.Command("redis-server", append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", o.dir}, o.args...)...)
	if err := o.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Addr: o.addr})
	defer client.Close()
	until(tb, "redis-server answers", func() bool { return client.Ping(context.Background()).Err() == nil })
}

func (o *own) kill() {
	_, _ = o.cmd.Process.Kill(), o.cmd.Wait() // it may have ended
}

func (o *own) signal(tb testing.TB, sig syscall.Signal) {
	tb.Helper()
	if err := o.cmd.Process.Signal(sig); err != nil {
		tb.Fatal(err)
	}
}
