package gate

import (
	"sync/atomic"

	"github.com/comporta/comporta"
)

const (
	kinds   = 4
	classes = 4
)

// Outcomes of the gate beside the reasons for refusing.
const (
	countAdmitted = int(comporta.NumReasons) + iota
	countReplayed
	numCounts
)

// counters counts every request once: by kind, class and what the gate decided.
type counters struct {
	requests [kinds][classes][numCounts]atomic.Uint64
	// would counts what observe mode let in all the same.
	would [kinds][comporta.NumReasons]atomic.Uint64
	// versions below the minimum pass as "absent" when they declare none.
	versionAbsent atomic.Uint64
	exempt        atomic.Uint64
}

func (c *counters) count(kind comporta.Kind, class comporta.Class, what int) {
	c.requests[kind%kinds][class%classes][what].Add(1)
}

// RequestCount is one line of requests_total.
type RequestCount struct {
	Kind     comporta.Kind
	Class    comporta.Class
	Decision string // admitted, replayed or a refusal's code
	Count    uint64
}

// Requests calls yield for every count that is not 0.
func (c *counters) each(yield func(RequestCount) bool) {
	for kind := range kinds {
		for class := range classes {
			for what := range numCounts {
				n := c.requests[kind][class][what].Load()
				if n == 0 {
					continue
				}
				if !yield(RequestCount{comporta.Kind(kind), comporta.Class(class), decisionName(what), n}) {
					return
				}
			}
		}
	}
}

func decisionName(what int) string {
	switch what {
	case countAdmitted:
		return "admitted"
	case countReplayed:
		return "replayed"
	}
	return comporta.Reason(what).String()
}
