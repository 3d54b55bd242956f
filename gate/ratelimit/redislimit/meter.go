package redislimit

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/comporta/comporta/gate/ratelimit"
	"github.com/comporta/comporta/internal/hash"
)

// meter is a policy made ready for Redis. A key's debt is the time until its
// bucket is full, in ticks, of which scale make a microsecond: one unit is
// exactly interval ticks.
type meter struct {
	policy   *ratelimit.Policy
	start    hash.Sum // begins the names of its keys in this process
	label    []byte   // begins what is hashed for their names in Redis
	interval int64
	scale    int64
	burst    int64
	window   int64   // ticks of a full burst
	rate     float64 // units a microsecond
	counts   *counts
}

// counts survive reloads.
type counts struct{ denied, shadowed atomic.Uint64 }

// Lua counts in doubles: whole numbers are exact up to 2^53. Two windows, which
// is all that a key may owe, stay well below.
const (
	maxTicks = 1 << 51
	maxScale = 1 << 10
)

func newMeter(p *ratelimit.Policy) *meter {
	m := &meter{policy: p, scale: 1, burst: p.Units(), counts: new(counts)}
	per, count := p.Limit.Rate.Per.Microseconds(), p.Limit.Rate.Count
	if m.burst <= 0 || count <= 0 || per <= 0 {
		m.burst = 0
		return m
	}
	m.rate = float64(count) / float64(per)
	m.interval, m.scale = ticksOf(per, count, max(1, maxTicks/max(1, p.Window().Microseconds()+1)))
	m.window = m.interval * m.burst
	return m
}

// ticksOf finds the scale, up to limit, at which the time between two units is
// whole, or else comes nearest: then it is rounded up, and the limit is slower
// than written by less than a tick a unit.
func ticksOf(per, count, limit int64) (interval, scale int64) {
	g := gcd(per, count)
	per, count = per/g, count/g
	limit = min(limit, maxScale)
	if count <= limit {
		return per, count
	}
	least := math.Inf(1)
	for s := int64(1); s <= limit; s++ {
		whole := int64(math.Ceil(float64(per) / float64(count) * float64(s)))
		for whole*count < per*s { // what the division above rounded away
			whole++
		}
		if over := float64(whole)/float64(s) - float64(per)/float64(count); over < least {
			least, interval, scale = over, whole, s
		}
	}
	return interval, scale
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// micros rounds ticks up, so that who waits that long is not early.
func (m *meter) micros(ticks int64) int64 { return (ticks + m.scale - 1) / m.scale }

func (m *meter) span(ticks int64) time.Duration {
	return time.Duration(m.micros(ticks)) * time.Microsecond
}

// lacks is the debt that stands between a key and n units, in ticks; not above 0
// when it can pay. n is at most the burst.
func (m *meter) lacks(debt, n int64) int64 { return debt + n*m.interval - m.window }

// result reports a key whose debt is known.
func (m *meter) result(debt, n, leased int64, allowed bool) ratelimit.Result {
	r := ratelimit.Result{Allowed: allowed}
	if !allowed {
		r.Wait = m.span(max(m.lacks(debt, n), 1))
	}
	switch {
	case debt <= 0:
		r.Remaining = m.burst
	case debt >= m.window:
		r.Next = m.span(debt - m.window + m.interval)
	default:
		left := m.window - debt
		r.Remaining = left / m.interval
		r.Next = m.span(m.interval - left%m.interval)
	}
	r.Remaining = min(r.Remaining+leased, m.burst)
	return r
}

// deny counts a denial and reports whether the request goes on all the same.
func (m *meter) deny() bool {
	if m.policy.Shadow {
		m.counts.shadowed.Add(1)
	} else {
		m.counts.denied.Add(1)
	}
	return m.policy.Shadow
}
