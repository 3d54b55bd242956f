package main

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"
)

// subject is one thing that is measured: run does it n times.
type subject struct {
	name string
	run  func(n int) error
	// tend is called before every chunk of iterations, unmeasured; nil for nothing.
	tend  func() error
	chunk int

	n       int // iterations of a round, found by calibrate
	samples []sample
}

// sample is what one iteration cost on the average of a round.
type sample struct {
	ns     float64 // wall clock
	cpu    float64 // ns of CPU time of the whole process, the collector included
	allocs float64
	bytes  float64
}

// spend runs n iterations and returns what all of them cost.
func (s *subject) spend(n int) (total sample, err error) {
	var before, after runtime.MemStats
	for n > 0 && err == nil {
		k := n
		if s.tend != nil {
			if err := s.tend(); err != nil {
				return total, fmt.Errorf("%s: %w", s.name, err)
			}
			k = min(n, s.chunk)
		}
		n -= k
		runtime.ReadMemStats(&before)
		cpu, start := cpuTime(), time.Now()
		err = s.run(k)
		took := time.Since(start)
		cpu = cpuTime() - cpu
		runtime.ReadMemStats(&after)
		total.ns += float64(took)
		total.cpu += float64(cpu)
		total.allocs += float64(after.Mallocs - before.Mallocs)
		total.bytes += float64(after.TotalAlloc - before.TotalAlloc)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", s.name, err)
	}
	return total, err
}

// calibrate finds how many iterations fill a round, and warms the subject up by
// looking for them.
func (s *subject) calibrate(round time.Duration) error {
	const most = 1 << 24
	for s.n = 1000; s.n < most; s.n *= 2 {
		total, err := s.spend(s.n)
		if err != nil {
			return err
		}
		if total.ns >= float64(round)/2 {
			s.n = int(float64(s.n) * float64(round) / total.ns)
			break
		}
	}
	return nil
}

// measure adds the sample of one round. The collector runs before, so that
// nobody pays for the garbage of another.
func (s *subject) measure() error {
	runtime.GC() //nolint:revive // see above
	total, err := s.spend(s.n)
	if err != nil {
		return err
	}
	n := float64(s.n)
	s.samples = append(s.samples, sample{total.ns / n, total.cpu / n, total.allocs / n, total.bytes / n})
	return nil
}

// summary is what the rounds of a subject say: the minimum of each figure, and
// the time of the worst round.
type summary struct {
	sample

	worst float64 // ns
}

func (s *subject) summary() summary {
	least := sample{math.Inf(1), math.Inf(1), math.Inf(1), math.Inf(1)}
	worst := 0.0
	for _, x := range s.samples {
		least = sample{min(least.ns, x.ns), min(least.cpu, x.cpu), min(least.allocs, x.allocs), min(least.bytes, x.bytes)}
		worst = max(worst, x.ns)
	}
	// What happens less than once in two hundred iterations happened beside them:
	// the statistics of a rival in the background, or the runtime's own.
	least.allocs = math.Round(least.allocs*100) / 100
	least.bytes = math.Round(least.bytes)
	return summary{least, worst}
}

// pair is like against like.
type pair struct {
	target       string
	what         string // the rival and what of it
	ours, theirs *subject
}

// measureAll measures all subjects, round by round.
func measureAll(rounds int, round time.Duration, alone []*subject, pairs []pair) error {
	subjects := alone
	for _, p := range pairs {
		subjects = append(slices.Clip(subjects), p.ours, p.theirs)
	}
	for _, s := range subjects {
		if err := s.calibrate(round); err != nil {
			return err
		}
	}
	for i := range rounds {
		for _, s := range turn(i, alone, pairs) {
			if err := s.measure(); err != nil {
				return err
			}
		}
	}
	return nil
}

// turn is the order of a round: the two of a pair are neighbours, and take turns
// in being first.
func turn(round int, alone []*subject, pairs []pair) []*subject {
	order := append([]*subject(nil), alone...)
	for _, p := range pairs {
		if round%2 == 0 {
			order = append(order, p.ours, p.theirs)
		} else {
			order = append(order, p.theirs, p.ours)
		}
	}
	return order
}
