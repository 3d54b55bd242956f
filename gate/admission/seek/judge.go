package seek

import "math"

// The constants of the search. They were chosen together, by simulation against
// the best static limit of many services; docs/design/002 tells how.
const (
	amplitude = .10 // of the dither
	gain      = .15 // of the step along the elasticity
	worth     = .12 // elasticity below which more concurrency only waits
	distrust  = .18 // the same while the service was never seen without load
	tolerance = 1.25
	cut       = 2.5  // times the baseline: far above it
	memory    = .15  // share of the latest elasticity in the mean
	noise     = .15  // what the mean differs by through chance alone
	anchor    = 1.75 // times the baseline: from here latency pulls the dither down
	warmth    = 300  // successes that make a baseline, at a variation of 1
	childhood = 2000 // successes after which growth is no longer questioned
)

// growths are the factors of growths in a row, once the first doublings met
// resistance.
var growths = [...]float64{1.1, 1.25, 1.5, 2}

// judge moves the limit by what a window says.
func (s *seeker) judge(r reading) {
	if 2*r.drops > r.good+r.drops {
		s.fall()
		return
	}
	if r.good < fewest {
		return
	}
	s.mean = r.mean
	if s.mode == ModeOut {
		if 10*r.drops < r.good+r.drops {
			s.comeBack()
		}
		return
	}
	if s.paused(r) {
		return
	}
	s.decisions++
	warm := s.learnBaseline(r)
	q := r.mean / s.baseline
	s.ratio = q
	s.rememberVariation(r, q)
	switch s.mode {
	case ModeFree:
		s.judgeFree(r, q, warm)
	case ModeTest:
		s.judgeTest(r, q)
	case ModeHigh:
		s.judgeHigh(r, q)
	case ModeLow:
		s.judgeLow(r, q)
	}
}

// fall halves the limit while most calls do not come back. Latency is no guide
// then: a stable timeout has no variance and looks like a healthy, slow service.
func (s *seeker) fall() {
	s.decisions++
	if s.mode != ModeOut {
		s.good = s.base
		if s.mode == ModeFree {
			s.good = s.level
		}
		s.mode = ModeOut
	}
	s.set(s.level / 2)
}

// comeBack leaves an outage. It restarts low and doubles: a service that comes
// back is met by everybody who waited.
func (s *seeker) comeBack() {
	s.decisions++
	s.mode, s.fresh = ModeFree, true
	s.set(max(s.level, min(s.good, float64(s.conf.Initial))))
}

// paused reports whether the service stood still in the window, as in a garbage
// collection. A pause is no evidence about concurrency, but three in a row are
// what the service is like.
func (s *seeker) paused(r reading) bool {
	if r.gap > pauseGaps*r.span/float64(r.good) && r.gap > r.mean*(1+2*math.Sqrt(s.cv2)) && s.pauses < 2 {
		s.pauses++
		s.skipped++
		return true
	}
	s.pauses = 0
	return false
}

// rememberVariation keeps the variance of the service: at once up, slowly down.
// Down nearly not at all while latency is mostly queue: everybody waits alike
// then, and the latencies look more even than the work behind them is. Short
// windows are pooled, or the highest of many chances would be remembered.
func (s *seeker) rememberVariation(r reading, q float64) {
	p := &s.pool
	p.good += r.good
	p.sum += r.sum
	p.squares += r.squares
	if p.good < 100 && s.cv2 > 0 {
		return
	}
	keep := .95
	if q > tolerance {
		keep = .99
	}
	cv2 := p.variation()
	s.cv2 = max(cv2, keep*s.cv2+(1-keep)*cv2)
	*p = latencies{}
}

// learnBaseline follows the latency of the service without a queue. It falls
// quickly, for nothing but less waiting makes it fall; it rises only while the
// house is far from full, or by the verdict of an experiment. warm says that it
// is still being found.
//
// It moves once enough successes are gathered, over several windows if need be:
// the mean of few is mostly below the true one when a few answers are costly, and
// a baseline that falls faster than it rises would sink to the cheap ones. A
// window in which in-flight leapt, and the next one, have seen the quick answers
// of those who came in and not yet the slow ones, so they teach nothing but the
// very first guess.
func (s *seeker) learnBaseline(r reading) (warm bool) {
	warm = !s.known && float64(s.steady) < warmth*max(1, s.cv2)
	s.seen += r.good
	if r.surge {
		if s.steady == 0 && !s.known {
			s.baseline = max(s.baseline, r.mean)
		}
		return warm
	}
	if !r.bound && r.flight < .5*s.level {
		s.calmSeen += r.good
	}
	if warm {
		s.steady += r.good
		s.total += r.sum
		s.baseline = s.total / float64(s.steady)
		return warm
	}
	c := &s.calm
	c.good += r.good
	c.sum += r.sum
	c.busy = c.busy || r.bound || r.flight >= .6*s.level
	if c.good >= precise(s.cv2) {
		s.moveBaseline(c.sum/float64(c.good), c.good, c.busy)
		*c = calm{}
	}
	return warm
}

func (s *seeker) moveBaseline(mean float64, good int, busy bool) {
	switch {
	case mean < .6*s.baseline && good >= 100:
		s.baseline = mean
	case mean < s.baseline:
		s.baseline += .1 * (mean - s.baseline)
	case !busy && mean < 1.5*s.baseline:
		s.baseline += .05 * (mean - s.baseline)
	}
}

// judgeFree grows the limit when it is felt and latency is at its baseline.
func (s *seeker) judgeFree(r reading, q float64, warm bool) {
	s.high++
	if q <= cut || !r.bound && !r.rising {
		s.high = 0
	}
	if s.high >= 3 || s.high >= 2 && r.bound {
		s.experiment(r)
		return
	}
	s.believe(r, q)
	// Where in-flight just rose, the samples were admitted before: they say
	// nothing of the latency at this limit. A cold start cannot wait for better.
	if !r.bound || (r.rising || r.rose) && s.seen >= childhood {
		return
	}
	tol := tolerance
	if warm {
		tol = cut
	}
	flat := s.boughtNothing(r)
	if flat {
		// Little's law sees those who are still inside; the mean, while
		// in-flight grows, only the quick ones.
		s.baseline, s.known = min(s.baseline, max(s.grown.mean, s.grown.flight/s.grown.rate)), true
		q = r.mean / s.baseline
	}
	switch {
	case q <= tol && !flat:
		// Touched by chance while half empty is no reason to grow.
		if r.refusals > 0 || r.flight > .75*s.level {
			s.grown = r.point()
			s.grow()
		}
	case flat:
		s.dither(min(s.level, max(s.prev, tolerance*r.flight/q)))
	case q <= cut:
		// Latency alone takes a fifth at most; throughput takes the rest.
		s.dither(min(s.level, max(s.prev, tolerance*r.flight/q, .8*s.level)))
	}
}

// believe raises the baseline of a service that became slower while nobody
// suffers: nothing is refused and nothing piles up.
func (s *seeker) believe(r reading, q float64) {
	s.slow++
	if q <= 1.5 || r.rising || r.refusals > 0 {
		s.slow = 0
	}
	if s.slow > 5 {
		s.baseline += .1 * (r.mean - s.baseline)
	}
}

// boughtNothing reports whether the growth of the first seconds brought only
// latency. It catches a baseline that was learned under load, as when the
// overload was there before the gateway.
func (s *seeker) boughtNothing(r reading) bool {
	g := s.grown
	return g.flight > 0 && s.seen < childhood &&
		r.flight > 1.3*g.flight && r.mean > 1.15*g.mean &&
		float64(min(r.good, g.good)) > 40*s.cv2 &&
		math.Log(r.rate/g.rate) < .3*math.Log(r.flight/g.flight)
}

// grow raises the limit: ×2 while fresh, in growing steps later.
func (s *seeker) grow() {
	s.prev = s.level
	if s.fresh {
		s.level = s.bounded(max(s.level+1, 2*s.level))
		return
	}
	f := growths[min(s.streak, len(growths)-1)]
	s.streak++
	s.set(max(s.level+1, f*s.level))
}

// experiment halves the limit to see whether throughput halves with it.
func (s *seeker) experiment(r reading) {
	s.ref, s.prev = r.point(), s.level
	if s.base == 0 || s.base > s.level {
		s.base = s.level
	}
	s.mode = ModeTest
	s.set(min(s.level, r.flight) / 2)
}

// judgeTest gives the verdict of an experiment. This is the only place where
// latency is judged, and throughput is the judge.
func (s *seeker) judgeTest(r reading, q float64) {
	fewer := math.Log(r.flight / s.ref.flight) // both are negative when the cut bit
	slower := math.Log(r.rate / s.ref.rate)
	switch {
	case r.flight > .85*s.ref.flight:
		s.tests[VerdictUnclear]++
		s.mode = ModeFree
		s.set(s.prev)
	case slower < .5*fewer:
		s.tests[VerdictTheirs]++
		if r.mean > s.baseline {
			s.baseline = r.mean
			s.raised++
		}
		s.mode, s.fresh = ModeFree, true
		s.set(s.prev)
	default:
		s.tests[VerdictOurs]++
		// Two estimates of the knee, by throughput and by latency: the higher,
		// for the dither can go down from there by itself.
		byRate := 1.1 * r.flight * s.ref.rate / r.rate
		knee := max(byRate, tolerance*r.flight/q)
		if !r.bound {
			knee = max(knee, s.level) // the load fits already
		}
		s.dither(min(s.prev, knee))
	}
}

// trusted reports whether the service was ever seen without load, so that the
// baseline can be right.
func (s *seeker) trusted() bool { return s.calmSeen >= warmth }

// price returns the elasticity that concurrency has to bring.
func (s *seeker) price() float64 {
	if s.trusted() {
		return worth
	}
	return distrust
}

// dither settles around b.
func (s *seeker) dither(b float64) {
	s.base = max(b, float64(s.conf.Min))
	s.fresh, s.streak, s.high = false, 0, 0
	s.known = true
	s.grown = point{}
	s.ebar = worth
	s.mode = ModeHigh
	s.set(above(s.base))
}

func above(b float64) float64 {
	return max(math.Ceil((1+amplitude)*b), math.Floor(b)+1)
}

// judgeHigh takes the upper point of a dither, or leaves it when there is no
// pressure, or no queue, any more.
func (s *seeker) judgeHigh(r reading, q float64) {
	s.countHigh(q)
	switch {
	case !r.bound:
		s.mode = ModeFree
		// Room for chance: the load that just fitted must not be refused when
		// it comes back in a bunch.
		s.level = s.bounded(max(s.level, s.base+2+math.Sqrt(s.base)))
	case q <= 1.15 && s.trusted() || q <= tolerance && s.ebar > worth:
		s.mode, s.prev, s.streak = ModeFree, s.level, 1
		s.set(max(s.level+1, 1.1*s.level))
	case s.high >= 3:
		s.experiment(r)
	default:
		s.ref = r.point()
		s.mode = ModeLow
		s.set(min(math.Floor((1-amplitude)*s.base), math.Floor(s.level)-1))
	}
}

// countHigh counts the windows in a row with latency far above the baseline.
func (s *seeker) countHigh(q float64) {
	s.high++
	if q <= cut {
		s.high = 0
	}
}

// judgeLow compares the lower point with the upper one and moves the centre
// along the elasticity: by how many percent throughput follows concurrency.
func (s *seeker) judgeLow(r reading, q float64) {
	s.countHigh(q)
	if dn := math.Log(s.ref.flight / r.flight); dn > .05 {
		e := min(max(math.Log(s.ref.rate/r.rate)/dn, -1), 1)
		w := min(1, dn/.1)
		if s.cv2 > 0 {
			w *= min(1, float64(r.good)/(200*s.cv2))
		}
		s.ebar += memory * w * (e - s.ebar)
		pull := min(max(.5*(q-anchor), 0), .4)
		d := s.ebar - s.price() - pull
		s.base = s.bounded(s.base * math.Exp(gain*w*d*min(1, math.Abs(d)/noise)))
		if s.ebar > .6 {
			// Throughput still follows: what looks like a queue is the
			// service's own latency.
			s.baseline += .2 * (r.mean - s.baseline)
		}
	}
	s.mode = ModeHigh
	s.set(above(s.base))
}
