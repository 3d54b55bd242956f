package retrypolicy

import (
	"strings"
	"time"

	"github.com/comporta/comporta"
)

// Path is where a service publishes its document.
const Path = "/.well-known/retry-policy"

// MaxSize is the longest document in bytes: what a client reads of an answer
// before it gives up.
const MaxSize = 64 << 10

// Bounds of what a document may ask for.
const (
	MaxAttempts = 10
	MaxWait     = time.Hour
	MaxPoll     = 24 * time.Hour
	MaxBurst    = 1000
	MaxRoutes   = 1000
	maxRoute    = 512     // bytes of a path
	maxVersion  = 1 << 53 // the integers that JSON carries everywhere
)

// Document is a policy document.
type Document struct {
	// Version orders documents: a client ignores one that is older than what it
	// has. 1 and more.
	Version uint64
	Limits
	// PerSuccess (0 to 1) and Burst (0 to 1000) are the budget of repeats; nil
	// when not said.
	PerSuccess *float64
	Burst      *int
	// Poll is how often a client should look, 1 s to 24 h; 0 when not said.
	Poll time.Duration
	// Minimum is the oldest version that is still served, of the program that it
	// names; the zero value when not said.
	Minimum comporta.ClientVersion
	// Routes replaces limits for paths. A key covers the path itself and what
	// lies below it; the longest that covers a path counts. Keys have no slash at
	// their end, so that "" covers everything.
	Routes map[string]Limits
}

// Limits is what a document says about calls, or about those of one route. What
// is nil was not said.
type Limits struct {
	RetriesEnabled *bool
	MaxAttempts    *int           // with the first; 1 to 10
	MinWait        *time.Duration // 0 to 1 h
	MaxWait        *time.Duration // 1 ms to 1 h
	Total          *time.Duration // 1 ms to 1 h
}

// Attempts returns how many attempts the limits allow: 1 when repeats are
// switched off, 0 when they say nothing.
func (l Limits) Attempts() int {
	switch {
	case l.RetriesEnabled != nil && !*l.RetriesEnabled:
		return 1
	case l.MaxAttempts != nil:
		return *l.MaxAttempts
	}
	return 0
}

// Over returns l where it says something, and general elsewhere.
func (l Limits) Over(general Limits) Limits {
	said(&general.RetriesEnabled, l.RetriesEnabled)
	said(&general.MaxAttempts, l.MaxAttempts)
	said(&general.MinWait, l.MinWait)
	said(&general.MaxWait, l.MaxWait)
	said(&general.Total, l.Total)
	return general
}

func said[T any](to **T, v *T) {
	if v != nil {
		*to = v
	}
}

// Route returns what the routes of a document have for a path, and false when
// none covers it. It does not allocate.
func Route[T any](routes map[string]T, path string) (v T, ok bool) {
	if len(routes) == 0 {
		return v, false
	}
	for path = strings.TrimSuffix(path[:min(len(path), maxRoute)], "/"); ; {
		if v, ok = routes[path]; ok {
			return v, true
		}
		if path == "" {
			return v, false
		}
		path = path[:max(strings.LastIndexByte(path, '/'), 0)]
	}
}
