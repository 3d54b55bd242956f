package sim

import (
	"math"
	"time"
)

// rule is a limit on what is in flight that may learn.
type rule interface {
	limit() float64
	// sample is told of an answer: how long it took since it was let in, how many
	// were in flight when it was, and whether the service failed it or took too long.
	sample(now instant, latency time.Duration, inflight int, dropped bool)
}

// limited admits up to a rule's limit, and says nothing to the rest.
type limited struct {
	rule  rule
	in    int
	stays []stay
	spare []uint32
}

// stay is an attempt in the service.
type stay struct {
	since    instant
	inflight int
	dropped  bool
}

func newLimited[R rule](learn func(*engine) R) func(*engine) *limited {
	return func(e *engine) *limited { return &limited{rule: learn(e)} }
}

func (l *limited) inside() int { return l.in }

func (l *limited) late(*engine, uint32) {}

func (l *limited) arrive(e *engine, i uint32) {
	if float64(l.in) >= math.Floor(l.rule.limit()) {
		e.refuse(i, 0)
		return
	}
	l.admit(e, i)
}

// slowest is the latency from which an answer counts as dropped: the AIMD limit's
// own default.
const slowest = 5 * time.Second

func (l *limited) admit(e *engine, i uint32) {
	p := e.enter(i)
	l.in++
	if l.in > int(l.rule.limit()) {
		e.fault("more in flight than the limit")
	}
	s := stay{e.now, l.in, !p.ok || time.Duration(p.done-e.now) > slowest}
	var ref uint32
	if n := len(l.spare); n > 0 {
		ref = l.spare[n-1]
		l.spare = l.spare[:n-1]
		l.stays[ref] = s
	} else {
		ref = uint32(len(l.stays))
		l.stays = append(l.stays, s)
	}
	e.agenda.add(max(p.done, e.now+1), evDone, ref) // no rule can divide by an answer that took no time
}

func (l *limited) done(e *engine, ref uint32) {
	s := &l.stays[ref]
	l.in--
	l.rule.sample(e.now, time.Duration(e.now-s.since), s.inflight, s.dropped)
	l.spare = append(l.spare, ref)
}

// static is a limit that somebody chose.
type static int

func staticRule(e *engine) static { return static(e.limit()) }

func (s static) limit() float64                           { return float64(s) }
func (s static) sample(instant, time.Duration, int, bool) {}

// adviser adds a Retry-After to whatever the service itself fails.
type adviser struct {
	bare

	wait func(e *engine, o *operation) time.Duration
}

func newAdviser(wait func(*engine, *operation) time.Duration) func(*engine) adviser {
	return func(*engine) adviser { return adviser{wait: wait} }
}

func (t adviser) arrive(e *engine, i uint32) {
	p := e.enter(i)
	if o := &e.ops[i]; o.answer == failed {
		o.due = p.done + instant(t.wait(e, o))
		o.set(told, true)
	}
}

func constantWait(*engine, *operation) time.Duration { return 30 * time.Second }

// hashWait is the source article's: 10 s and a second of 50 that is the client's own.
func hashWait(e *engine, o *operation) time.Duration {
	return 10*time.Second + time.Duration(e.dice.bits(askDefence, e.clientOf(o), 0)%50)*time.Second
}

func doublingWait(_ *engine, o *operation) time.Duration {
	return time.Second << min(max(o.attempts, 1)-1, 6)
}

// article is the server of the source article, to the letter: whatever was seen in
// the last minute, or says so of itself, is a repeat; repeats enter below 70 % of
// the capacity, originals below all of it.
type article struct {
	limited

	floor      int
	seen, old  map[uint64]instant // by what was asked; two generations of a minute each
	generation instant
}

const articleWindow = instant(time.Minute)

func newArticle(e *engine) *article {
	return &article{
		limited: limited{rule: staticRule(e)}, floor: e.limit() * 7 / 10,
		seen: make(map[uint64]instant), old: make(map[uint64]instant),
	}
}

func (a *article) arrive(e *engine, i uint32) {
	o := &e.ops[i]
	repeat := a.repeated(e, o)
	if a.in >= e.limit() || repeat && a.in >= a.floor {
		e.refuse(i, e.now+instant(hashWait(e, o)))
		return
	}
	a.admit(e, i)
}

func (a *article) repeated(e *engine, o *operation) bool {
	if e.now-a.generation >= articleWindow {
		a.old, a.seen, a.generation = a.seen, a.old, e.now
		clear(a.seen)
	}
	name := mix(e.clientOf(o)) ^ mix(o.name+1)
	at, ok := a.seen[name]
	if !ok {
		at, ok = a.old[name]
	}
	a.seen[name] = e.now
	declares := e.s.Classes[o.class].SDK && o.attempts > 1
	return declares || ok && e.now-at < articleWindow
}
