package redislimit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/comporta/comporta/gate/ratelimit"
)

// server is take.lua in Go, over a map: what the script must do, said twice. The
// integration tests hold the two against each other.
type server struct {
	mu      sync.Mutex
	clock   func() time.Time
	keys    map[string]held
	calls   int
	largest int
	down    bool
	lose    bool // the answer, after the work is done
}

// held is a value and its end.
type held struct {
	full            int64 // ticks since 1970 at which the bucket is full
	interval, scale int64
	end             int64 // microseconds
}

func newServer(clock func() time.Time) *server {
	return &server{clock: clock, keys: map[string]held{}}
}

var errDown = errors.New("connection refused")

func (v *server) ask(_ context.Context, _ int, keys []string, numbers []byte) (string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.down {
		return "", errDown
	}
	var p []int64
	if err := json.Unmarshal(numbers, &p); err != nil {
		return "", err
	}
	v.calls++
	v.largest = max(v.largest, len(keys))
	r := reckoning{server: v, now: v.clock().UnixMicro(), keys: keys}
	reply := r.run(p)
	if v.lose {
		return "", context.DeadlineExceeded
	}
	return reply, nil
}

// reckoning is one run of the script.
type reckoning struct {
	*server
	now    int64
	keys   []string
	b      []bucket
	shares int64
	out    []string
}

type bucket struct {
	interval, scale, burst, window, debt int64
	changed                              bool
}

func (r *reckoning) run(p []int64) string {
	r.shares = p[0]
	learning, n := p[1] == 1, int(p[2])
	p = p[3:]
	for i := range n {
		b := bucket{interval: p[0], scale: p[1], burst: p[2], window: p[0] * p[2]}
		p = p[3:]
		h, ok := r.server.keys[r.keys[i]]
		switch {
		case ok && h.end > r.now:
			b.debt = max(h.full-r.now*h.scale, 0)
			if h.interval != b.interval || h.scale != b.scale {
				b.debt = int64(math.Ceil(float64(b.debt) / float64(h.interval) * float64(b.interval)))
			} else if b.debt > 2*b.window+clockSlack*b.scale {
				b.debt, b.changed = b.window, true
			}
		case learning:
			b.debt = b.burst / 2 * b.interval
		}
		r.b = append(r.b, b)
	}
	for len(p) > 0 {
		if p[0] == 1 {
			p = r.take(p[2:], int(p[1]))
		} else {
			r.settle(&r.b[p[1]-1], p[2], p[3])
			p = p[4:]
		}
	}
	for i, b := range r.b {
		switch {
		case !b.changed:
		case b.debt <= 0:
			delete(r.server.keys, r.keys[i])
		default:
			r.server.keys[r.keys[i]] = held{
				r.now*b.scale + b.debt, b.interval, b.scale, r.now + (b.debt/b.scale/1000+1)*1000,
			}
		}
	}
	return strings.Join(r.out, " ")
}

func (r *reckoning) take(p []int64, m int) []int64 {
	granted := true
	for i := range m {
		q := p[4*i:]
		b := &r.b[q[0]-1]
		if q[1] > 0 && b.debt+q[1]*b.interval > b.window && q[2]&flagShadow == 0 {
			granted = false
		}
	}
	for i := range m {
		q := p[4*i:]
		b, cost := &r.b[q[0]-1], q[1]
		after, lease := b.debt+cost*b.interval, int64(0)
		ok := cost == 0 || after <= b.window
		switch {
		case granted && ok && cost > 0:
			lease = min(q[3], (b.window-after)/b.interval/r.shares)
			b.debt, b.changed = after+lease*b.interval, true
		case !ok && q[2]&flagPenalty != 0:
			r.charge(b, cost)
		}
		r.say(ok, lease, b.debt)
	}
	return p[4*m:]
}

func (*reckoning) charge(b *bucket, units int64) int64 {
	was := b.debt
	b.debt, b.changed = min(was+min(units, 2*b.burst)*b.interval, max(was, 2*b.window)), true
	return max(b.debt-max(was, b.window), 0)
}

func (r *reckoning) settle(b *bucket, units, id int64) {
	if units >= 0 {
		r.say(true, r.charge(b, units)/b.interval, b.debt)
		return
	}
	if id > 0 {
		key := r.keys[id-1]
		if r.server.keys[key].end > r.now {
			r.say(false, 0, b.debt)
			return
		}
		r.server.keys[key] = held{end: r.now + ratelimit.RefundMemory.Microseconds()}
	}
	b.debt, b.changed = max(b.debt+max(units, -2*b.burst)*b.interval, 0), true
	r.say(true, 0, b.debt)
}

func (r *reckoning) say(ok bool, a, b int64) {
	n := 0
	if ok {
		n = 1
	}
	r.out = append(r.out, fmt.Sprint(n, a, b))
}

// clock is a time that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// fake makes a store over a server in this process. Its budget is long, since
// nothing here is about time that passes outside.
func fake(tb testing.TB, v *server, c Config) *Store {
	tb.Helper()
	return fakeLanes(tb, v, c, 1)
}

func fakeLanes(tb testing.TB, v *server, c Config, lanes int) *Store {
	tb.Helper()
	c.Redis = redis.UniversalOptions{Addrs: []string{"unused"}}
	orDefault(&c.Timeout, maxTimeout)
	orDefault(&c.Keys, minKeys)
	s, err := newStore(c.withDefaults(), lanes, v.clock)
	if err != nil {
		tb.Fatal(err)
	}
	s.ask = v.ask
	tb.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// settled waits until nothing is under way.
func (s *Store) settled() { s.flights.Wait() }
