//go:build integration

package redislimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/comporta/comporta/gate/ratelimit"
)

// where reads the address of a service that test/services started.
func where(tb testing.TB, name string) redis.UniversalOptions {
	tb.Helper()
	text := os.Getenv(name)
	if text == "" {
		tb.Skipf("%s is not set: run `make integration`", name)
	}
	o, err := ParseURL(text)
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

// open makes a store for tests that are not about its budget: the machine is
// busy, and 20 ms are soon over.
func open(tb testing.TB, c Config) *Store {
	tb.Helper()
	return openAt(tb, c, time.Now)
}

func openAt(tb testing.TB, c Config, clock func() time.Time) *Store {
	tb.Helper()
	orDefault(&c.Timeout, maxTimeout)
	orDefault(&c.Prefix, prefix())
	s, err := connect(tb.Context(), c, clock)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil && !errors.Is(err, ErrUnavailable) {
			tb.Log(err) // its Redis may be gone
		}
	})
	return s
}

func policyOf(tb testing.TB, stores []*Store, p ratelimit.Policy) *ratelimit.Policy {
	tb.Helper()
	made, err := ratelimit.NewPolicy(p)
	for _, s := range stores {
		if err == nil {
			err = s.Prepare(time.Now(), made)
		}
	}
	if err != nil {
		tb.Fatal(err)
	}
	return made
}

func perSecond(n, burst int64) ratelimit.Limit {
	return ratelimit.Limit{Rate: ratelimit.Rate{Count: n, Per: time.Second}, Burst: burst}
}

// take is one request on one key.
func (s *Store) take(p *ratelimit.Policy, key string, n int64) (bool, ratelimit.Result, error) {
	debits, results := [1]ratelimit.Debit{{Policy: p, Key: []byte(key), Cost: n, Believed: true}}, [1]ratelimit.Result{}
	ok, err := s.Take(context.Background(), s.clock(), debits[:], results[:])
	return ok, results[0], err
}

// proxy stands between a store and its Redis, and loses answers.
type proxy struct {
	net.Listener
	to   string
	mute atomic.Bool // requests arrive, answers do not
	cut  atomic.Bool // neither does
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l, to: to}
	t.Cleanup(func() { _ = l.Close() }) // the test is over
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(in)
		}
	}()
	return p
}

func (p *proxy) serve(in net.Conn) {
	out, err := net.Dial("tcp", p.to)
	if err != nil {
		_ = in.Close() // nothing was said
		return
	}
	pipe := func(from, to net.Conn, mute func() bool) {
		defer func() { _, _ = from.Close(), to.Close() }() // either end may have gone
		buf := make([]byte, 1<<14)
		for {
			n, err := from.Read(buf)
			if err != nil {
				return
			}
			if mute() {
				continue
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
	}
	go pipe(in, out, p.cut.Load)
	pipe(out, in, func() bool { return p.mute.Load() || p.cut.Load() })
}

// until waits for what another process or goroutine does.
func until(tb testing.TB, what string, met func() bool) {
	tb.Helper()
	tick, end := time.NewTicker(2*time.Millisecond), time.NewTimer(15*time.Second)
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

// redisProgram is the server that tests start for themselves.
var redisProgram = cmp.Or(os.Getenv("COMPORTA_TEST_REDIS_SERVER"), "redis-server")

// own starts a Redis of this test, which may be killed.
type own struct {
	addr string
	dir  string
	cmd  *exec.Cmd
}

func startOwn(tb testing.TB) *own {
	tb.Helper()
	if _, err := exec.LookPath(redisProgram); err != nil {
		tb.Skipf("%v: run `make integration`", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	o := &own{addr: l.Addr().String(), dir: tb.TempDir()}
	if err := l.Close(); err != nil {
		tb.Fatal(err)
	}
	o.start(tb)
	tb.Cleanup(func() { o.kill() })
	return o
}

func (o *own) start(tb testing.TB) {
	tb.Helper()
	_, port, err := net.SplitHostPort(o.addr)
	if err != nil {
		tb.Fatal(err)
	}
	o.cmd = exec.Command(redisProgram, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", o.dir)
	if err := o.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	until(tb, "redis-server answers", func() bool {
		c, err := net.Dial("tcp", o.addr)
		if err == nil {
			_ = c.Close() // it was there
		}
		return err == nil
	})
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

// envInt reads a number that makes a test longer.
func envInt(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}
