package gate

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/comporta/comporta"
)

// Level says how hard the house is pressed. Where a verdict names what the traffic
// looks like, a level says what the gate does about it, and does not flutter.
type Level uint8

// The levels. What each one changes:
//
//	normal, busy   nothing: busy says that there is little room left
//	overload       costly routes are dearer for strangers, and pages ask them for
//	               a challenge, where there is one: somebody waits or is refused
//	               for want of room
//	attack         the same; and verified and proven clients go first, whatever
//	               they ask, while originals of strangers come after them
//
// Strangers are clients that are neither verified nor proven. A route is as costly
// as its Weight says: that many times a rate rule charges a request of it.
const (
	LevelNormal Level = iota
	LevelBusy
	LevelOverload
	LevelAttack
	numLevels
)

var levelNames = [numLevels]string{"normal", "busy", "overload", "attack"}

func (l Level) String() string {
	if l < numLevels {
		return levelNames[l]
	}
	return "unknown"
}

// ParseLevel reads the name of a level.
func ParseLevel(s string) (Level, error) {
	for l := range numLevels {
		if levelNames[l] == s {
			return l, nil
		}
	}
	return LevelNormal, fmt.Errorf("level %q is unknown: use normal, busy, overload or attack", s)
}

const (
	busyAbove = 0.8 // of the capacity in use
	calmBelow = 0.7 // of it: what was busy is not any more
	// riseAfter is how many seconds in a row must be worse. A burst that fills a
	// small house for a moment is no overload.
	riseAfter = 2
	// fallAfter is how many seconds must be better, for each level on the way down.
	fallAfter = 10
)

// pressure is what a level is judged by.
type pressure struct {
	use     float64 // of the capacity
	bound   bool    // the limit kept somebody out or waiting within the last second
	verdict Verdict
}

// asks is the level that the pressure of this second asks for, at level now.
func (p pressure) asks(now Level) Level {
	switch {
	case p.verdict == VerdictAttack:
		return LevelAttack
	case p.bound:
		return LevelOverload
	case p.use >= busyAbove, now >= LevelBusy && p.use >= calmBelow:
		return LevelBusy
	}
	return LevelNormal
}

// ladder is a level and how it got there.
type ladder struct {
	level  Level
	rising uint8 // seconds in a row that asked for more
	calm   uint8 // seconds that asked for less
}

// step judges one more second, elapsed after the one before. An attack is believed
// at once: its verdict is made of ten seconds already.
func (l ladder) step(asked Level, elapsed int64) ladder {
	switch {
	case asked > l.level:
		l.calm = 0
		if l.rising++; elapsed > 1 {
			l.rising = 1 // the seconds between had no requests at all
		}
		if l.rising >= riseAfter || asked == LevelAttack {
			l.level, l.rising = asked, 0
		}
	case asked == l.level:
		l.rising, l.calm = 0, 0
	default:
		l.rising = 0
		l.calm = uint8(min(int64(l.calm)+elapsed, int64(numLevels)*fallAfter))
		for l.calm >= fallAfter && l.level > asked {
			l.level, l.calm = l.level-1, l.calm-fallAfter
		}
	}
	return l
}

// degrade keeps the level. A decision reads one word; the first of each second
// judges.
type degrade struct {
	word   atomic.Uint64 // second, level, rising, calm
	pinned atomic.Pointer[levelPin]
}

type levelPin struct {
	level Level
	until time.Time
}

func unpackLevel(word uint64) (second int64, l ladder) {
	return int64(word >> 24), ladder{level: Level(word >> 16 & 0xff), rising: uint8(word >> 8), calm: uint8(word)}
}

func (l ladder) pack(second int64) uint64 {
	return uint64(second)<<24 | uint64(l.level)<<16 | uint64(l.rising)<<8 | uint64(l.calm)
}

// pinAt returns what an operator has pinned.
func (d *degrade) pinAt(now time.Time) (levelPin, bool) {
	p := d.pinned.Load()
	if p == nil || !now.Before(p.until) {
		return levelPin{}, false
	}
	return *p, true
}

// judge steps once for a second, whoever comes first.
func (d *degrade) judge(second int64, p pressure) Level {
	word := d.word.Load()
	last, l := unpackLevel(word)
	if last == second {
		return l.level
	}
	elapsed := int64(1) // a clock that stepped back goes on from there
	if last > 0 && second > last {
		elapsed = second - last
	}
	next := l.step(p.asks(l.level), elapsed)
	if d.word.CompareAndSwap(word, next.pack(second)) {
		return next.level
	}
	_, l = unpackLevel(d.word.Load())
	return l.level
}

// LevelAt says how hard the house is pressed, or what an operator has pinned.
func (g *Gate) LevelAt(now time.Time) Level {
	d := &g.state.degrade
	if pin, ok := d.pinAt(now); ok {
		return pin.level
	}
	second := max(g.state.watch.second(now), 1)
	if last, l := unpackLevel(d.word.Load()); last == second {
		return l.level
	}
	a := g.admission.StatsAt(now)
	p := pressure{bound: a.Bound, verdict: g.state.watch.verdictAt(now)}
	if a.Limit > 0 {
		p.use = float64(a.InFlight) / float64(a.Limit)
	}
	return d.judge(second, p)
}

// dearnessAt is how many times rate rules charge a request: what a costly route
// takes of a pressed house, a stranger pays for.
func (g *Gate) dearnessAt(now time.Time, r *comporta.Request) int64 {
	weight := g.routes.list[r.Route].Weight
	if weight <= 1 || r.Client.Class.Believed() || g.LevelAt(now) < LevelOverload {
		return 1
	}
	return int64(weight)
}

// challengeAt asks a stranger on a page for the proof of Config.Challenge. Programs
// could not give one, and whoever is on the list of the allowed need not.
func (d *Decision) challengeAt(now time.Time) comporta.Reason {
	g, r := d.gate, d.r
	route := &g.routes.list[r.Route]
	if route.Class != RoutePage || r.Client.Class.Believed() || d.Limits != nil && d.Limits.Listed {
		return comporta.ReasonNone
	}
	level := g.LevelAt(now)
	if level < LevelOverload || g.challenge(now, level, route, r) {
		return comporta.ReasonNone
	}
	return comporta.ChallengeRequired
}

const maxPinTTL = 24 * time.Hour

// PinLevelAt holds a level until then, whatever the pressure: an operator who
// knows better. It survives reloads, not restarts.
func (s *State) PinLevelAt(now time.Time, l Level, until time.Time) error {
	if l >= numLevels {
		return fmt.Errorf("level %d is unknown", l)
	}
	if ttl := until.Sub(now); ttl <= 0 || ttl > maxPinTTL {
		return fmt.Errorf("level: ttl %v is not within 0 and %v: a pin must expire by itself", ttl.Round(time.Second), maxPinTTL)
	}
	s.degrade.pinned.Store(&levelPin{l, until})
	return nil
}

// UnpinLevel lets the pressure decide again.
func (s *State) UnpinLevel() { s.degrade.pinned.Store(nil) }

// LevelPinAt returns the level that is pinned, and until when; ok is false when
// none is.
func (s *State) LevelPinAt(now time.Time) (l Level, until time.Time, ok bool) {
	pin, ok := s.degrade.pinAt(now)
	return pin.level, pin.until, ok
}
