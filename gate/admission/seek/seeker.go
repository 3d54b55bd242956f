package seek

import (
	"math"
	"sync/atomic"
	"time"
)

// Time that moves by more than this between two events is a clock that was set,
// or so long a silence that the open window is worth nothing.
const (
	reorder = 100 * time.Millisecond // backwards: events of parallel goroutines arrive so late at worst
	leap    = time.Hour              // forwards
)

// seeker is the learning itself: no lock, no clock. Concurrencies are real
// numbers so that growth by a tenth is not lost to rounding; the gate sees the
// whole part.
type seeker struct {
	conf Config

	origin   time.Time     // now is counted from here
	now      time.Duration // of the latest event; never runs back
	inflight int           // since the latest event
	frozen   bool

	open        window
	need        int           // successes that the open window wants
	settle      time.Duration // samples before this instant belong to the old limit
	rose, surge bool          // in-flight rose, or leapt, in the latest window
	draining    bool          // in-flight is still above a limit that was cut

	level float64 // the limit
	mode  Mode
	fresh bool // growth may double: nothing has contradicted it yet

	baseline float64   // r0: latency without a queue, seconds; 0 is unknown
	known    bool      // the baseline is no longer the mean of everything
	seen     int       // successes judged so far
	steady   int       // successes of windows whose mean the first baseline is
	total    float64   // their latencies, seconds
	calmSeen int       // successes of windows in which the house was half empty
	calm     calm      // what the baseline moves by next
	mean     float64   // latency in the latest window, seconds
	cv2      float64   // squared coefficient of variation, remembered
	pool     latencies // what it is remembered from next
	ratio    float64   // q: mean / baseline in the latest window

	good   float64 // the limit before an outage
	base   float64 // the centre of the dither; 0 is unset
	prev   float64 // the limit before the latest growth or experiment
	streak int     // growths in a row
	high   int     // windows in a row with latency far above the baseline
	slow   int     // windows in a row that were slow although nobody suffered
	pauses int     // windows skipped in a row
	ref    point   // before the experiment, or the upper half of a dither
	grown  point   // at the latest growth; zero is none
	ebar   float64 // mean elasticity of throughput

	decisions, skipped, raised uint64
	tests                      [NumVerdicts]uint64
}

// point is one place on the curve of throughput and latency over concurrency.
type point struct {
	rate, flight, mean float64
	good               int
}

// calm gathers successes for the baseline.
type calm struct {
	good int
	sum  float64 // of latencies, seconds
	busy bool    // the house was rather full in one of the windows
}

func (r *reading) point() point { return point{r.rate, r.flight, r.mean, r.good} }

// moveTo brings the seeker to an event and reports whether a sample taken there
// counts.
func (s *seeker) moveTo(now time.Time, inflight int, refused *atomic.Uint64) bool {
	t, whole := s.since(now)
	s.open.pass(t-s.now, s.inflight, s.inflight >= int(s.level))
	// A window begins with work: silence is not slowness.
	idle := s.inflight <= 0 && s.open.good+s.open.drops == 0
	s.now, s.inflight = t, max(inflight, 0)
	if s.draining && s.inflight <= int(s.level) {
		s.draining = false
		s.settle = s.now + seconds(s.mean)
	}
	counts := whole && !s.draining && !s.frozen && s.now >= s.settle
	if !counts || idle {
		s.restart(refused)
	}
	return counts
}

// since turns now into time since the first event. whole is false when the clock
// was set meanwhile: time then stands still for this event, and the origin moves
// so that it goes on from here.
func (s *seeker) since(now time.Time) (t time.Duration, whole bool) {
	t = now.Sub(s.origin)
	if d := t - s.now; d < -reorder || d > leap {
		s.origin = now.Add(-s.now)
		return s.now, false
	}
	return max(t, s.now), true
}

// restart opens an empty window.
func (s *seeker) restart(refused *atomic.Uint64) {
	s.open = window{start: s.now, lastGood: s.now, first: s.inflight, refused: refused.Load()}
	s.need = s.wanted(s.cv2)
}

// wanted returns the successes that make a window worth judging.
func (s *seeker) wanted(cv2 float64) int {
	switch {
	case s.fresh && s.mode == ModeFree:
		return freshNeed
	case s.mode == ModeTest, s.mode == ModeOut:
		return precise(cv2)
	default:
		return int(min(max(300*cv2, 100), mostNeed))
	}
}

// precise returns the successes whose mean is worth something: its standard
// error falls with their root, so they grow with the variance.
func precise(cv2 float64) int { return int(min(max(100*cv2, 50), mostNeed)) }

// close judges the open window and opens the next, unless what it holds so far
// asks for more samples: then it goes on.
func (s *seeker) close(refused *atomic.Uint64) {
	r := s.open.read(s.now, s.inflight, refused.Load())
	surge := r.surge
	r.surge, r.rose = surge || s.surge, s.rose
	cv2 := max(r.cv2, s.cv2)
	if want := s.wanted(cv2); want > s.need || s.suspects(r) {
		s.need = max(want, s.suspicion(cv2))
		if !s.open.enough(s.now, s.mean, s.need) {
			return
		}
	}
	s.judge(r)
	s.surge, s.rose = surge, r.rising
	s.restart(refused)
}

// suspects reports whether a fresh limit is felt, and few samples cannot tell
// what to do: whether to double it, for latency is near the tolerance, or seems to
// have been bought by the latest growth, or there was no growth to compare with
// yet; or whether to halve it.
func (s *seeker) suspects(r reading) bool {
	if !s.fresh || s.mode != ModeFree || !r.bound {
		return false
	}
	if s.seen < childhood && (s.grown.flight == 0 || r.mean > 1.15*s.grown.mean) {
		return true
	}
	q := r.mean / s.baseline // +Inf when unknown
	return q > cut || math.Abs(q-tolerance) < 1.5*q*math.Sqrt(s.cv2/float64(r.good))
}

// suspicion returns the successes that tell a curve from chance.
func (s *seeker) suspicion(cv2 float64) int {
	return int(min(50*cv2+1, mostNeed))
}

// set cuts or raises the limit. Samples count again when the old limit has left
// the service: one mean latency, and first the surplus in flight.
func (s *seeker) set(level float64) {
	s.level = s.bounded(level)
	s.draining = s.inflight > int(s.level)
	s.settle = s.now + seconds(s.mean)
}

func (s *seeker) bounded(level float64) float64 {
	return min(max(level, float64(s.conf.Min)), float64(s.conf.Max))
}
