package sim

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrInvariant says that a run did what must never happen. It is a fault of the
// engine or of what it drives, never of a scenario.
var ErrInvariant = errors.New("sim: an invariant was broken")

// faults counts what must not happen, by what it is.
type faults map[string]int

// fault notes one; words without numbers, so that they can be counted.
func (e *engine) fault(what string) {
	if e.faults == nil {
		e.faults = faults{}
	}
	e.faults[what]++
}

func (f faults) err() error {
	if len(f) == 0 {
		return nil
	}
	var lines []string
	for what, n := range f {
		lines = append(lines, fmt.Sprintf("%s (%d times)", what, n))
	}
	return fmt.Errorf("%w: %s", ErrInvariant, strings.Join(lines, "; "))
}

// checkEnd checks what must hold when all is over.
func (e *engine) checkEnd() {
	t := &e.tally
	if e.count != t.done+t.lost+uint64(e.live) {
		e.fault("operations were made or lost: begun is not done + lost + live")
	}
	if t.useful > t.work {
		e.fault("more work was of use than was done")
	}
	if inside := e.door.inside(); inside != 0 {
		e.fault("somebody is still inside when all have left")
	}
}

// checkResult checks what no defence can do: serve before the service is back, or
// faster than the service works.
func (e *engine) checkResult(r *Result) {
	if e.s.Outage == 0 {
		return
	}
	if r.RecoveryMin < e.s.Outage.Minutes() {
		e.fault("it recovered before the service did")
	}
	// Fewer, or of services that vary more, say nothing.
	const many = 1000
	if n := len(e.tally.drained); n > many && !e.s.Service.Exponential {
		least := float64(n) * 0.95 / BoundOf(e.s).Mu // with nobody else there
		if took := time.Duration(e.tally.drained[(n-1)*95/100] - e.outageEnd).Seconds(); took < 0.9*least {
			e.fault("the backlog was served faster than the service works")
		}
	}
}
