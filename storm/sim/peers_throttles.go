package sim

import (
	"math"
	"time"
)

const (
	googleAbout = "client-side throttling of Google's SRE book, chapter Handling Overload: reject (requests − 2·accepts)/(requests + 1) over two minutes; one throttle for each class of clients with our SDK, and for each partner key"
	awsAbout    = "retry quota of the AWS SDKs' standard mode with the numbers of 2026 (SDK reference, Retry behavior): 500 tokens, 14 a repeat, 1 back for a first success, the cost back for a repeat that succeeds; a bucket for each SDK class and partner key"
	envoyAbout  = "Envoy's admission control filter (reference, defaults): rejects ((n − s/0.95)/(n + 1)), at most 80 %, over 30 s; at the server"
)

// tens counts two kinds of things in the last seconds, in steps of a tenth of them.
type tens struct {
	step instant
	at   int64
	ring [10][2]float64
}

func newTens(d time.Duration) tens { return tens{step: instant(d) / 10} }

func (t *tens) add(now instant, kind int) {
	t.roll(now)
	t.ring[t.at%10][kind]++
}

func (t *tens) roll(now instant) {
	for at := int64(now / t.step); t.at < at; {
		t.at = max(t.at+1, at-9)
		t.ring[t.at%10] = [2]float64{}
	}
}

func (t *tens) sums(now instant) (a, b float64) {
	t.roll(now)
	for i := range t.ring {
		a += t.ring[i][0]
		b += t.ring[i][1]
	}
	return a, b
}

// processOf names the process in which the client of an operation runs, as far as
// the throttles of others know one: those with our SDK, together, and each partner.
// ok is false for clients that nobody can equip.
func (e *engine) processOf(o *operation) (process uint64, ok bool) {
	c := &e.s.Classes[o.class]
	switch {
	case c.SDK:
		return 1<<32 | uint64(o.class), true
	case c.Keys > 0:
		return uint64(o.user), true
	}
	return 0, false
}

// google is adaptive throttling.
type google struct{ of map[uint64]*tens }

func newGoogle(*engine) *google { return &google{make(map[uint64]*tens)} }

func (g *google) counts(e *engine, o *operation) *tens {
	p, ok := e.processOf(o)
	if !ok {
		return nil
	}
	t := g.of[p]
	if t == nil {
		n := newTens(2 * time.Minute)
		t = &n
		g.of[p] = t
	}
	return t
}

func (g *google) allow(e *engine, o *operation) bool {
	t := g.counts(e, o)
	if t == nil {
		return true
	}
	requests, accepts := t.sums(e.now)
	t.add(e.now, 0) // those that are withheld count too
	return e.dice.of(askDefence, o.id, int(o.attempts)) >= googleReject(requests, accepts)
}

func (g *google) learn(e *engine, o *operation) {
	if t := g.counts(e, o); t != nil && o.answer == served {
		t.add(e.now, 1)
	}
}

// googleReject is the closed form, K = 2.
func googleReject(requests, accepts float64) float64 {
	return max(0, (requests-2*accepts)/(requests+1))
}

// aws is the retry quota.
type aws struct{ left map[uint64]float64 }

const (
	awsTokens = 500
	awsCost   = 14
)

func newAWS(*engine) *aws { return &aws{make(map[uint64]float64)} }

func (a *aws) level(p uint64) float64 {
	if left, ok := a.left[p]; ok {
		return left
	}
	return awsTokens
}

func (a *aws) allow(e *engine, o *operation) bool {
	p, ok := e.processOf(o)
	if !ok || o.attempts == 1 {
		return true
	}
	left, ok := awsTake(a.level(p))
	a.left[p] = left
	return ok
}

func (a *aws) learn(e *engine, o *operation) {
	if p, ok := e.processOf(o); ok && o.answer == served {
		a.left[p] = awsGive(a.level(p), o.attempts > 1)
	}
}

// awsTake and awsGive are the closed form.
func awsTake(left float64) (float64, bool) {
	if left < awsCost {
		return left, false
	}
	return left - awsCost, true
}

func awsGive(left float64, repeat bool) float64 {
	if repeat {
		return min(left+awsCost, awsTokens)
	}
	return min(left+1, awsTokens)
}

// envoy is the admission control filter.
type envoy struct {
	limited

	seen tens
}

func newEnvoy(*engine) *envoy {
	return &envoy{limited: limited{rule: static(math.MaxInt32)}, seen: newTens(30 * time.Second)}
}

func (v *envoy) arrive(e *engine, i uint32) {
	o := &e.ops[i]
	n, ok := v.seen.sums(e.now)
	if e.dice.of(askDefence, o.id, int(o.attempts)) < envoyReject(n, ok) {
		e.refuse(i, 0)
		return
	}
	v.admit(e, i)
}

func (v *envoy) done(e *engine, ref uint32) {
	s := &v.stays[ref]
	v.seen.add(e.now, 0)
	if !s.dropped {
		v.seen.add(e.now, 1)
	}
	v.limited.done(e, ref)
}

// envoyReject is the closed form: threshold 0.95, aggression 1, at most 0.8.
func envoyReject(n, success float64) float64 {
	return min(max(0, (n-success/0.95)/(n+1)), 0.8)
}
