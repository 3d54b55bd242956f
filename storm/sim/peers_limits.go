package sim

import (
	"math"
	"time"
)

// The learned limits of Netflix's concurrency-limits library, from its README and
// the comments of its classes. Simplified: one limit for all requests, sampled by
// every answer, starting at the true capacity instead of 20 (so that the first
// minutes say nothing about the algorithm).
const (
	gradientAbout = "Netflix concurrency-limits, Gradient2 (README, Gradient2Limit): limit × clamp(1.5·long/short latency, 0.5, 1) + 4, smoothed by 0.2; starts at the truth"
	vegasAbout    = "Netflix concurrency-limits, Vegas (VegasLimit): queue = limit·(1 − least/latency) against 3·log10 and 6·log10 of the limit; the least latency is asked anew every 30 limits of samples"
	aimdAbout     = "Netflix concurrency-limits, AIMD (AIMDLimit): + 1 while half full, × 0.9 on a failure or an answer after 5 s, at least 20"
)

const (
	leastLimit = 20
	mostLimit  = 1000 // the library's default is 200; large enough not to be a limit of its own
)

// gradient is Gradient2.
type gradient struct {
	value float64
	long  float64 // mean latency of the last 600 samples or so
	n     int
}

func gradientRule(e *engine) *gradient { return &gradient{value: float64(e.limit())} }

func (g *gradient) limit() float64 { return g.value }

func (g *gradient) sample(_ instant, latency time.Duration, inflight int, _ bool) {
	short := latency.Seconds()
	g.n++
	if g.n <= 10 { // the library's warm-up: a plain mean
		g.long += (short - g.long) / float64(g.n)
	} else {
		g.long += (short - g.long) * 2 / 601
	}
	if g.long/short > 2 { // drifting back after a long time of load
		g.long *= 0.95
	}
	if float64(inflight) < g.value/2 { // not what limits now
		return
	}
	g.value = nextGradient(g.value, g.long, short)
}

// nextGradient is the closed form: tolerance 1.5, queue 4, smoothing 0.2.
func nextGradient(limit, long, short float64) float64 {
	slope := min(max(1.5*long/short, 0.5), 1)
	next := limit*slope + 4
	return min(max(limit*0.8+next*0.2, leastLimit), mostLimit)
}

// vegas is Vegas.
type vegas struct {
	value  float64
	least  time.Duration
	probed int
}

func vegasRule(e *engine) *vegas { return &vegas{value: float64(e.limit())} }

func (v *vegas) limit() float64 { return v.value }

func (v *vegas) sample(_ instant, latency time.Duration, inflight int, dropped bool) {
	v.probed++
	if float64(v.probed) > 30*v.value {
		v.probed, v.least = 0, latency
		return
	}
	if v.least == 0 || latency < v.least {
		v.least = latency
		return
	}
	if !dropped && float64(inflight)*2 < v.value {
		return
	}
	v.value = nextVegas(v.value, v.least.Seconds(), latency.Seconds(), dropped)
}

// nextVegas is the closed form.
func nextVegas(limit, least, latency float64, dropped bool) float64 {
	step := max(1, math.Log10(limit))
	queue := math.Ceil(limit * (1 - least/latency))
	switch {
	case dropped:
		limit -= step
	case queue <= step: // far from full
		limit += 6 * step
	case queue < 3*step:
		limit += step
	case queue > 6*step:
		limit -= step
	}
	return min(max(limit, 1), mostLimit)
}

// aimd is AIMD.
type aimd struct{ value float64 }

func aimdRule(e *engine) *aimd { return &aimd{float64(e.limit())} }

func (a *aimd) limit() float64 { return a.value }

func (a *aimd) sample(_ instant, _ time.Duration, inflight int, dropped bool) {
	a.value = nextAIMD(a.value, inflight, dropped)
}

// nextAIMD is the closed form.
func nextAIMD(limit float64, inflight int, dropped bool) float64 {
	switch {
	case dropped:
		limit = math.Floor(limit * 0.9)
	case float64(inflight)*2 >= limit:
		limit++
	}
	return min(max(limit, leastLimit), mostLimit)
}
