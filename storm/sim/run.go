package sim

import (
	"fmt"
	"time"
)

// Run plays a scenario under the defence of a name with one seed. The error names
// what is wrong with the scenario, that there is no such defence, or wraps
// ErrInvariant; then the Result is there all the same.
//
// Runs share nothing and may go on at once.
func Run(s *Scenario, defence string, seed uint64) (*Result, error) {
	d, ok := DefenceByName(defence)
	if !ok {
		return nil, fmt.Errorf("sim: there is no defence %q", defence)
	}
	if err := s.Check(); err != nil {
		return nil, err
	}
	own := *s
	if d.fixes != nil {
		d.fixes(&own.Fixes)
	}
	began := time.Now() // only to tell how fast the engine is
	e, err := newEngine(&own, &d, seed)
	if err != nil {
		return nil, err
	}
	e.run()
	r := e.result(&d, seed)
	r.WallS = round(time.Since(began).Seconds())
	return r, e.faults.err()
}
