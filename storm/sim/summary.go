package sim

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
)

// Summary is all runs of one defence, in the order of their seeds.
type Summary struct {
	Defence string
	Runs    []*Result
}

// Median returns the median of a number over the runs, by its JSON name; the mean
// of the middle two if they are even in number.
func (s *Summary) Median(field string) float64 {
	values := s.values(field)
	if len(values) == 0 {
		return 0
	}
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

// Range returns the least and the greatest.
func (s *Summary) Range(field string) (least, greatest float64) {
	values := s.values(field)
	if len(values) == 0 {
		return 0, 0
	}
	return values[0], values[len(values)-1]
}

// Recovered counts the runs that recovered.
func (s *Summary) Recovered() int {
	n := 0
	for _, r := range s.Runs {
		if r.Recovered {
			n++
		}
	}
	return n
}

// Typical returns the run whose recovery is the median, the later of the middle two.
func (s *Summary) Typical() *Result {
	if len(s.Runs) == 0 {
		return &Result{Defence: s.Defence}
	}
	runs := slices.Clone(s.Runs)
	slices.SortStableFunc(runs, func(a, b *Result) int {
		switch {
		case a.RecoveryMin < b.RecoveryMin:
			return -1
		case a.RecoveryMin > b.RecoveryMin:
			return 1
		}
		return 0
	})
	return runs[len(runs)/2]
}

func (s *Summary) values(field string) []float64 {
	read := fields[field]
	if read == nil {
		return nil
	}
	values := make([]float64, 0, len(s.Runs))
	for _, r := range s.Runs {
		values = append(values, read(r))
	}
	slices.Sort(values)
	return values
}

// Compare plays a scenario under each defence with the seeds 1 to seeds, several
// runs at once. progress, if not nil, is called after each run, by one goroutine
// at a time. The first error ends it; runs under way are waited for.
func Compare(s *Scenario, defences []string, seeds int, progress func(done, all int)) ([]Summary, error) {
	if seeds < 1 {
		return nil, fmt.Errorf("sim: %d seeds; at least 1", seeds)
	}
	summaries := make([]Summary, len(defences))
	for i, name := range defences {
		summaries[i] = Summary{Defence: name, Runs: make([]*Result, seeds)}
	}
	c := comparison{all: seeds * len(defences), progress: progress}
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), c.all) {
		workers.Go(func() {
			for n, ok := c.next(); ok; n, ok = c.next() {
				d, seed := n%len(defences), n/len(defences)
				r, err := Run(s, defences[d], uint64(seed)+1)
				if err != nil {
					err = fmt.Errorf("%s, seed %d: %w", defences[d], seed+1, err)
				}
				summaries[d].Runs[seed] = r
				c.finish(err)
			}
		})
	}
	workers.Wait()
	return summaries, c.err
}

// comparison hands out runs.
type comparison struct {
	all      int
	progress func(done, all int)

	mu        sync.Mutex // guards what follows, and serialises progress
	at, ended int
	err       error
}

func (c *comparison) next() (n int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at == c.all || c.err != nil {
		return 0, false
	}
	c.at++
	return c.at - 1, true
}

func (c *comparison) finish(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended++
	if c.err == nil {
		c.err = err
	}
	if c.progress != nil {
		c.progress(c.ended, c.all)
	}
}
