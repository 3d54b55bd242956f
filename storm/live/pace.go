package live

import (
	"context"
	"sync"
	"time"
)

// Hard bounds of a storm, whatever its scenario says. The demo runs two storms.
const (
	MaxRate        = 5_000   // requests a second
	MaxRequests    = 100_000 // requests of one storm
	MaxLength      = 10 * time.Minute
	MaxConnections = 1_000
)

// pace spaces requests so that no second has more than MaxRate, by virtual
// scheduling: one instant for the next, and a little that may be caught up.
type pace struct {
	mu   sync.Mutex
	next time.Time
	left int
	// spent ends the storm when nothing is left.
	spent func()
}

const (
	spacing = time.Second / MaxRate
	catchUp = 50 * time.Millisecond // of the spacing, after a pause of the machine
)

// wait stands in line; false if ctx ended or no request is left.
func (p *pace) wait(ctx context.Context) bool {
	d, ok := p.takeAt(time.Now())
	if !ok {
		p.spent()
		return false
	}
	return pause(ctx.Done(), d)
}

func (p *pace) takeAt(now time.Time) (wait time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left <= 0 {
		return 0, false
	}
	p.left--
	if earliest := now.Add(-catchUp); p.next.Before(earliest) {
		p.next = earliest
	}
	p.next = p.next.Add(spacing)
	return max(p.next.Sub(now), 0), true
}
