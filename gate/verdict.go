package gate

import (
	"sync/atomic"
	"time"

	"github.com/comporta/comporta"
)

// Verdict answers the question of an incident: is it an attack, or demand that
// piled up? Volume alone cannot tell; who is refused and what they ask can.
type Verdict uint8

// The verdicts.
const (
	VerdictNormal  Verdict = iota // few repeats, nothing much refused
	VerdictBacklog                // repeats of known clients: organise the queue, do not block the door
	VerdictAttack                 // mostly unseen identities that ask new things
	VerdictMixed                  // neither picture is clear
	numVerdicts
)

var verdictNames = [numVerdicts]string{"normal", "backlog", "attack", "mixed"}

func (v Verdict) String() string {
	if v < numVerdicts {
		return verdictNames[v]
	}
	return "unknown"
}

const (
	verdictWindow  = 10 // seconds
	verdictMinimum = 20 // requests in the window below which nothing is said
	calmRepeats    = 0.03
	calmRefused    = 0.01
)

// Traffic is what passed the gate within the last ten seconds.
type Traffic struct {
	Requests, Repeats, Refused, RefusedBelieved uint64
}

// RepeatRatio is the share of repeats, 0 without traffic.
func (t Traffic) RepeatRatio() float64 { return share(t.Repeats, t.Requests) }

// Verdict judges the window. A calm house is normal whatever is in the numbers;
// below twenty requests nothing is said.
func (t Traffic) Verdict() Verdict {
	repeats, refused := t.RepeatRatio(), share(t.Refused, t.Requests)
	believed := share(t.RefusedBelieved, t.Refused)
	switch {
	case t.Requests < verdictMinimum, repeats < calmRepeats && refused < calmRefused:
		return VerdictNormal
	case refused < calmRefused: // many repeats, and room for all of them
		return VerdictBacklog
	case repeats >= 0.5 && believed >= 0.5:
		return VerdictBacklog
	case repeats < 0.2 && believed < 0.2:
		return VerdictAttack
	}
	return VerdictMixed
}

func share(part, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// watch counts the last seconds in a ring of buckets. Whoever enters a new
// second clears its bucket; a count that races with the clearing may be lost,
// which a share over ten seconds does not notice.
type watch struct {
	start   time.Time
	buckets [verdictWindow]second
	// judged packs the second of the last judgement and its verdict, so that a
	// decision reads one word.
	judged atomic.Uint64
}

type second struct {
	number                                      atomic.Int64
	requests, repeats, refused, refusedBelieved atomic.Uint64
}

func (w *watch) second(now time.Time) int64 { return int64(now.Sub(w.start)/time.Second) + 1 }

func (w *watch) bucket(n int64) *second {
	b := &w.buckets[uint64(n)%verdictWindow]
	if was := b.number.Load(); was != n && was < n && b.number.CompareAndSwap(was, n) {
		b.requests.Store(0)
		b.repeats.Store(0)
		b.refused.Store(0)
		b.refusedBelieved.Store(0)
	}
	return b
}

func (w *watch) countAt(now time.Time, r *comporta.Request, refused bool) {
	b := w.bucket(w.second(now))
	b.requests.Add(1)
	if r.Sighting.Kind.Repeat() {
		b.repeats.Add(1)
	}
	if refused {
		b.refused.Add(1)
		if r.Client.Class.Believed() {
			b.refusedBelieved.Add(1)
		}
	}
}

func (w *watch) trafficAt(now time.Time) Traffic {
	var t Traffic
	n := w.second(now)
	for i := range w.buckets {
		b := &w.buckets[i]
		if age := n - b.number.Load(); age < 0 || age >= verdictWindow {
			continue
		}
		t.Requests += b.requests.Load()
		t.Repeats += b.repeats.Load()
		t.Refused += b.refused.Load()
		t.RefusedBelieved += b.refusedBelieved.Load()
	}
	return t
}

// verdictAt judges once a second.
func (w *watch) verdictAt(now time.Time) Verdict {
	n := uint64(max(w.second(now), 1))
	if j := w.judged.Load(); j>>8 == n {
		return Verdict(j & 0xff)
	}
	v := w.trafficAt(now).Verdict()
	w.judged.Store(n<<8 | uint64(v))
	return v
}
