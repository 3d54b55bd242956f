package measure

import (
	"fmt"
	"math"
	"runtime"
	"time"
)

// Subject is one thing that is measured.
type Subject struct {
	Name string
	Run  func(n int) error // does it n times
	// Tend is called before every Chunk of iterations, unmeasured; nil for nothing.
	Tend  func() error
	Chunk int // above 0 with Tend

	n       int // iterations of a round, found by calibrate
	samples []Sample
}

// Sample is what one iteration cost on the average of a round.
type Sample struct {
	NS     float64 // wall clock
	CPU    float64 // ns of CPU time of the whole process, the collector included
	Allocs float64
	Bytes  float64
}

// spend runs n iterations and returns what all of them cost.
func (s *Subject) spend(n int) (total Sample, err error) {
	var before, after runtime.MemStats
	for n > 0 && err == nil {
		k := n
		if s.Tend != nil {
			if err := s.Tend(); err != nil {
				return total, fmt.Errorf("%s: %w", s.Name, err)
			}
			k = min(n, s.Chunk)
		}
		n -= k
		runtime.ReadMemStats(&before)
		cpu, start := cpuTime(), time.Now()
		err = s.Run(k)
		took := time.Since(start)
		cpu = cpuTime() - cpu
		runtime.ReadMemStats(&after)
		total.NS += float64(took)
		total.CPU += float64(cpu)
		total.Allocs += float64(after.Mallocs - before.Mallocs)
		total.Bytes += float64(after.TotalAlloc - before.TotalAlloc)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", s.Name, err)
	}
	return total, err
}

// calibrate finds how many iterations fill a round, and warms the subject up by
// looking for them.
func (s *Subject) calibrate(round time.Duration) error {
	const most = 1 << 24
	for s.n = 1000; s.n < most; s.n *= 2 {
		total, err := s.spend(s.n)
		if err != nil {
			return err
		}
		if total.NS >= float64(round)/2 {
			s.n = int(float64(s.n) * float64(round) / total.NS)
			break
		}
	}
	return nil
}

// measure adds the sample of one round. The collector runs before, so that
// nobody pays for the garbage of another.
func (s *Subject) measure() error {
	runtime.GC() //nolint:revive // see above
	total, err := s.spend(s.n)
	if err != nil {
		return err
	}
	n := float64(s.n)
	s.samples = append(s.samples, Sample{total.NS / n, total.CPU / n, total.Allocs / n, total.Bytes / n})
	return nil
}

// Summary is what the rounds of a subject say: the minimum of each figure, and
// the time of the worst round.
type Summary struct {
	Sample

	Worst float64 // ns
}

// Summary returns what was measured so far.
func (s *Subject) Summary() Summary {
	least := Sample{math.Inf(1), math.Inf(1), math.Inf(1), math.Inf(1)}
	worst := 0.0
	for _, x := range s.samples {
		least = Sample{min(least.NS, x.NS), min(least.CPU, x.CPU), min(least.Allocs, x.Allocs), min(least.Bytes, x.Bytes)}
		worst = max(worst, x.NS)
	}
	// What happens less than once in two hundred iterations happened beside them:
	// the statistics of a rival in the background, or the runtime's own.
	least.Allocs = math.Round(least.Allocs*100) / 100
	least.Bytes = math.Round(least.Bytes)
	return Summary{least, worst}
}
