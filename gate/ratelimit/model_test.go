package ratelimit

import (
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// model is a token bucket in exact fractions: the tokens that a key has, and when.
type model struct {
	rate   *big.Rat // tokens a microsecond
	burst  *big.Rat
	tokens *big.Rat
	at     int64 // microseconds
}

func newModel(l Limit) *model {
	m := &model{rate: big.NewRat(l.Rate.Count, l.Rate.Per.Microseconds()), burst: new(big.Rat).SetInt64(l.size())}
	m.tokens = new(big.Rat).Set(m.burst)
	return m
}

func (m *model) refill(at int64) {
	if at <= m.at {
		return
	}
	m.tokens.Add(m.tokens, new(big.Rat).Mul(m.rate, new(big.Rat).SetInt64(at-m.at)))
	if m.tokens.Cmp(m.burst) > 0 {
		m.tokens.Set(m.burst)
	}
	m.at = at
}

func (m *model) take(at, n int64) bool {
	m.refill(at)
	cost := new(big.Rat).SetInt64(n)
	if m.tokens.Cmp(cost) < 0 {
		return false
	}
	m.tokens.Sub(m.tokens, cost)
	return true
}

func (m *model) add(n int64) {
	if m.tokens.Add(m.tokens, new(big.Rat).SetInt64(n)); m.tokens.Cmp(m.burst) > 0 {
		m.tokens.Set(m.burst)
	}
	if floor := new(big.Rat).Neg(m.burst); m.tokens.Cmp(floor) < 0 {
		m.tokens.Set(floor)
	}
}

// left is the whole tokens, and the microseconds until one more, rounded up.
func (m *model) left() (whole, wait int64) {
	if m.tokens.Cmp(m.burst) == 0 {
		return m.burst.Num().Int64(), 0
	}
	floor := new(big.Int).Div(m.tokens.Num(), m.tokens.Denom()) // Euclidean: down
	whole = max(floor.Int64(), 0)
	missing := new(big.Rat).Sub(new(big.Rat).SetInt64(whole+1), m.tokens)
	missing.Quo(missing, m.rate)
	up := new(big.Int).Add(missing.Num(), new(big.Int).Sub(missing.Denom(), big.NewInt(1)))
	return whole, up.Div(up, missing.Denom()).Int64()
}

// exactLimit draws limits whose intervals are exact.
func exactLimit(t *rapid.T) Limit {
	return Limit{
		Rate: Rate{
			Count: rapid.Int64Range(1, maxScale).Draw(t, "count"),
			Per:   rapid.SampledFrom([]time.Duration{time.Microsecond, 7 * time.Millisecond, time.Second, 7 * time.Minute, day}).Draw(t, "per"),
		},
		Burst: rapid.Int64Range(1, 50).Draw(t, "burst"),
	}
}

func TestBucketEqualsTheExactModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := exactLimit(t)
		b, err := NewBucket(BucketConfig{Limit: l, Keys: MinKeys})
		if err != nil {
			t.Fatal(err)
		}
		m, at := newModel(l), int64(0)
		// Steps of about an interval: that is where decisions are close.
		step := max(l.Rate.Per.Microseconds()/l.Rate.Count, 1)
		for range rapid.IntRange(1, 60).Draw(t, "calls") {
			at += rapid.Int64Range(0, 2*step).Draw(t, "step") * rapid.Int64Range(0, 3).Draw(t, "times")
			now := t0.Add(time.Duration(at) * time.Microsecond)
			n := rapid.Int64Range(0, l.Burst).Draw(t, "cost")
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				m.refill(at)
				m.add(n)
				if err := b.RefundAt(now, "", "k", n); err != nil {
					t.Fatal(err)
				}
			case 1:
				m.refill(at)
				m.add(-n)
				if err := b.ChargeAt(now, "k", n); err != nil {
					t.Fatal(err)
				}
			default:
				want := m.take(at, n) || n == 0
				r, err := b.TakeAt(now, "k", n)
				if err != nil || r.Allowed != want {
					t.Fatalf("%v: at %d µs, cost %d: %+v, %v; want %v", l, at, n, r, err, want)
				}
			}
			r, _ := b.TakeAt(now, "k", 0)
			whole, wait := m.left()
			if r.Remaining != whole || r.Next.Microseconds() != wait {
				t.Fatalf("%v: at %d µs: %d left, next in %v; want %d in %d µs", l, at, r.Remaining, r.Next, whole, wait)
			}
		}
	})
}

// TestNoRateIsFasterThanWritten covers the rates that have no exact interval.
func TestNoRateIsFasterThanWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Rate{rapid.Int64Range(1, 1_000_000_000).Draw(t, "count"), time.Duration(rapid.Int64Range(1, 10_000_000).Draw(t, "µs")) * time.Microsecond}
		if r.check() != nil {
			t.Skip("too fast to tell apart")
		}
		ticks, scale := r.interval()
		got, want := big.NewRat(int64(ticks), int64(scale)), big.NewRat(r.Per.Microseconds(), r.Count)
		over, _ := new(big.Rat).Sub(got, want).Float64()
		if over < 0 || over > 0.001 || scale > maxScale || ticks == 0 {
			t.Errorf("%v: interval %v µs for %v: %v over", r, got, want, over)
		}
	})
}

// TestStampsCompareAndAddAsTicks holds the mixed radix against plain ticks.
func TestStampsCompareAndAddAsTicks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := radix(rapid.Uint64Range(1, maxScale).Draw(t, "scale"))
		most := x.ticks(maxHorizon)
		a, b := rapid.Uint64Range(0, most).Draw(t, "a"), rapid.Uint64Range(0, most).Draw(t, "b")
		if got := x.ticks(x.pack(a)); got != a {
			t.Fatalf("ticks(pack(%d)) = %d", a, got)
		}
		if got := x.add(x.pack(a), x.pack(b)); got != x.pack(a+b) {
			t.Fatalf("%d + %d = %d", a, b, x.ticks(got))
		}
		if (x.pack(a) < x.pack(b)) != (a < b) {
			t.Fatalf("%d and %d compare wrongly", a, b)
		}
	})
}
