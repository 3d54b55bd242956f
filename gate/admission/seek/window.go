package seek

import (
	"math"
	"time"
)

// A window closes on evidence, not on a tick.
const (
	fewest    = 10                    // samples below which nothing is judged
	shortest  = 50 * time.Millisecond // no window is shorter
	patience  = 5 * time.Second       // after this, fewest samples must do
	freshNeed = 20                    // samples while nothing is known: speed counts more than precision
	mostNeed  = 1000                  // samples, whatever the variance
	pauseGaps = 10                    // a gap of so many mean gaps is a pause
)

// window gathers samples. Its instants count from the seeker's first event.
type window struct {
	start     time.Duration
	lastGood  time.Duration // the latest success, or the start
	gap       time.Duration // the longest time between two successes
	full      time.Duration // time spent with the limit reached
	area      float64       // in-flight × nanoseconds: the integral of concurrency
	latencies               // of the successes
	drops     int
	first     int    // in-flight when the window opened
	refused   uint64 // the refusal counter when the window opened
}

// pass accounts for the time since the last event, during which inflight was
// constant.
func (w *window) pass(dt time.Duration, inflight int, full bool) {
	w.area += float64(inflight) * float64(dt)
	if full {
		w.full += dt
	}
}

// add takes one sample.
func (w *window) add(now, latency time.Duration, drop bool) {
	if drop {
		w.drops++
		return
	}
	// A latency of zero would make every ratio of latencies meaningless.
	lat := max(latency, time.Microsecond).Seconds()
	w.good++
	w.sum += lat
	w.squares += lat * lat
	w.gap = max(w.gap, now-w.lastGood)
	w.lastGood = now
}

// enough reports whether the window may be judged: need successes, or whatever
// there is after a patience that covers two mean latencies (seconds).
func (w *window) enough(now time.Duration, mean float64, need int) bool {
	if w.good+w.drops < fewest {
		return false
	}
	t := now - w.start
	if t < shortest || t.Seconds()*float64(w.good) < w.sum {
		return false
	}
	return w.good >= need || t >= max(patience, 2*seconds(mean))
}

// latencies sums up the latencies of successes.
type latencies struct {
	good    int
	sum     float64 // seconds
	squares float64 // seconds²
}

// variation returns the squared coefficient of variation of the latencies: 0 for
// a constant, 1 for an exponential service, more for mixtures.
func (l *latencies) variation() float64 {
	if l.good < 2 {
		return 0
	}
	n := float64(l.good)
	mean := l.sum / n
	return max(0, l.squares/n/(mean*mean)-1)
}

// reading is what a closed window says.
type reading struct {
	latencies
	drops    int
	span     float64 // seconds
	gap      float64 // longest time between successes, seconds
	mean     float64 // latency of successes, seconds
	rate     float64 // successes per second
	flight   float64 // mean in-flight
	refusals uint64
	bound    bool // the limit was felt
	rising   bool // in-flight grew over the window
	rose     bool // in the window before
	surge    bool // it leapt, in this window or the one before: more than chance does
	cv2      float64
}

// read sums the window up. T is never 0 here: enough saw to that.
func (w *window) read(now time.Duration, inflight int, refused uint64) reading {
	t := (now - w.start).Seconds()
	r := reading{
		latencies: w.latencies, drops: w.drops, span: t, gap: w.gap.Seconds(),
		rate:     float64(w.good) / t,
		flight:   max(w.area/1e9/t, 1e-3), // logarithms of it follow
		refusals: refused - w.refused,
		cv2:      w.variation(),
		rising:   float64(inflight) > 1.05*float64(w.first)+1,
	}
	r.surge = float64(inflight) > 1.05*float64(w.first)+1+2*math.Sqrt(float64(w.first))
	if w.good > 0 {
		r.mean = w.sum / float64(w.good)
	}
	r.bound = r.refusals > 0 || w.full.Seconds() > .05*t
	return r
}

// seconds turns a non-negative number of seconds into a duration; more than an
// hour is an hour, which no caller distinguishes.
func seconds(s float64) time.Duration {
	return time.Duration(math.Min(s, 3600) * float64(time.Second))
}
