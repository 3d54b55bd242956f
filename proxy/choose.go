package proxy

import (
	"math/rand/v2"
	"time"

	"github.com/comporta/comporta/breaker"
)

// choose returns the upstream to ask, other than not, with the leave of its breakers.
// It returns nil if there is none: with the shortest wait until a breaker lets calls
// pass again, 0 if it is not a breaker that stands in the way.
//
// It is the less busy of two random ones, which is enough to keep the fullest far
// from the rest, without a scan (Mitzenmacher, "The power of two choices in
// randomized load balancing"). If that one cannot be asked, the others are tried. When
// all are out by their health, all are in: a check that fails everywhere is likelier
// to be wrong than that nothing is left to lose.
func (p *Proxy) choose(now time.Time, not *upstream) (up *upstream, l leave, wait time.Duration) {
	n := len(p.upstreams)
	first := 0
	if n > 1 {
		first = p.draw(now, not)
	}
	panicking := p.panicking()
	for _, last := range [...]bool{false, true} { // at last also those that answer, though badly
		for i := range n {
			up := p.upstreams[(first+i)%n]
			if up == not || !panicking && up.vitals.out.Load() {
				continue
			}
			l, open := up.allowAt(now, last)
			if open == nil {
				return up, l, 0
			}
			if last && (wait == 0 || open.RetryAfter < wait) {
				wait = open.RetryAfter
			}
		}
	}
	return nil, leave{}, wait
}

// draw returns the index of the better of two random upstreams. One that has just
// come back is drawn less often than the others, until it is warm.
func (p *Proxy) draw(now time.Time, not *upstream) int {
	n := len(p.upstreams)
	i := rand.IntN(n)
	j := (i + 1 + rand.IntN(n-1)) % n
	a, b := p.upstreams[i], p.upstreams[j]
	switch {
	case a == not || a.vitals.out.Load():
		return j
	case b == not || b.vitals.out.Load():
		return i
	}
	warmA, warmB := a.vitals.shareAt(now, p.config.SlowStart), b.vitals.shareAt(now, p.config.SlowStart)
	switch {
	case warmA < 1 && rand.Float64() >= warmA:
		return j
	case warmB < 1 && rand.Float64() >= warmB:
		return i
	case b.inFlight.Load() < a.inFlight.Load():
		return j
	}
	return i
}

// panicking reports whether all upstreams are out by their health.
func (p *Proxy) panicking() bool {
	for _, up := range p.upstreams {
		if !up.vitals.out.Load() {
			return false
		}
	}
	return true
}

// another reports whether the traffic of up has elsewhere to go.
func (p *Proxy) another(now time.Time, up *upstream) bool {
	for _, other := range p.upstreams {
		if other != up && !other.vitals.out.Load() && other.stateAt(now) == breaker.Closed {
			return true
		}
	}
	return false
}
