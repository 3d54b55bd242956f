package remote

import (
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/comporta/comporta/client/retry"
	"github.com/comporta/comporta/internal/retrypolicy"
)

// Path is where a service publishes its document.
const Path = retrypolicy.Path

// Switch keeps what services last said about repeats. Make one with New; its
// methods may be called from many goroutines.
type Switch struct {
	config Config
	agent  string // Client-Version, or empty

	now   atomic.Pointer[inForce]
	heard words

	applying sync.Mutex // one document after the other, in memory and in the file
	kept     bool       // the file has the document in force; guarded by applying
	running  atomic.Bool
}

// inForce is a document as this client obeys it. It is immutable.
type inForce struct {
	version    uint64 // 0: no document yet
	etag, text string // as they came
	limits     retry.Limits
	routes     map[string]retry.Limits // by path without the slash at its end
	burst      *int
	perSuccess *float64
	poll       time.Duration
	tooOld     bool
}

// of returns what a document means to this client.
func (s *Switch) of(doc *retrypolicy.Document, etag, text string) *inForce {
	f := &inForce{
		version: doc.Version, etag: etag, text: text,
		limits: limitsOf(doc.Limits), burst: doc.Burst, perSuccess: doc.PerSuccess, poll: s.config.Poll,
	}
	if len(doc.Routes) > 0 {
		f.routes = make(map[string]retry.Limits, len(doc.Routes))
		for path, l := range doc.Routes {
			f.routes[path] = limitsOf(l.Over(doc.Limits))
		}
	}
	if doc.Poll > 0 {
		f.poll = min(max(doc.Poll, min(minPoll, s.config.Poll)), maxPoll)
	}
	v := s.config.Version
	f.tooOld = v.Name != "" && v.Name == doc.Minimum.Name && v.Compare(doc.Minimum) < 0
	return f
}

// limitsOf puts what a document says into the words of a policy.
func limitsOf(said retrypolicy.Limits) retry.Limits {
	l := retry.Limits{MaxAttempts: said.Attempts()}
	if said.Total != nil {
		l.Total = *said.Total
	}
	if said.MinWait != nil {
		l.Floor = *said.MinWait
	}
	if said.MaxWait != nil {
		l.Cap = *said.MaxWait
	}
	return l
}

// Limits is LimitsAt for now.
func (s *Switch) Limits(destination, path string) retry.Limits {
	return s.LimitsAt(time.Now(), destination, path)
}

// LimitsAt returns what was said about a call of a path of a destination: by the
// document (its route of the longest path that covers this one, where that says
// something) and by a refusal, whichever is tighter.
func (s *Switch) LimitsAt(now time.Time, destination, path string) retry.Limits {
	var l retry.Limits
	if s.speaksOf(destination) {
		f := s.now.Load()
		var ok bool
		if l, ok = retrypolicy.Route(f.routes, path); !ok {
			l = f.limits
		}
	}
	if b, left := s.heard.at(now, destination); left > 0 {
		if b.MaxAttempts > 0 && (l.MaxAttempts == 0 || b.MaxAttempts < l.MaxAttempts) {
			l.MaxAttempts = b.MaxAttempts
		}
		l.Floor = max(l.Floor, b.MinWait)
	}
	return l
}

// speaksOf reports whether the document is about a destination.
func (s *Switch) speaksOf(destination string) bool {
	for _, d := range s.config.Destinations {
		if strings.EqualFold(d, destination) {
			return true
		}
	}
	return false
}

// Budget returns how many repeats the document allows before any success, and
// how many a success may earn; the largest values there are while it does not
// say. It changes when Trace.Applied is called, and fits budget.Budgets.Tighten.
func (s *Switch) Budget() (burst int, perSuccess float64) {
	f := s.now.Load()
	burst, perSuccess = math.MaxInt, 1
	if f.burst != nil {
		burst = *f.burst
	}
	if f.perSuccess != nil {
		perSuccess = *f.perSuccess
	}
	return burst, perSuccess
}

// TooOld reports whether the document says that this version of the program is
// no longer served. Its calls can only fail.
func (s *Switch) TooOld() bool { return s.now.Load().tooOld }

// Heard is HeardAt for now.
func (s *Switch) Heard(destination, policy string) { s.HeardAt(time.Now(), destination, policy) }

// HeardAt takes note of a Retry-Policy that a destination sent; it is to be
// called before the decision about a repeat. The last one counts, until its ttl is
// over. It reports whether the value could be read; if not, it changes nothing.
func (s *Switch) HeardAt(now time.Time, destination, policy string) bool {
	b, ok := retrypolicy.ParseBrief(policy)
	if !ok {
		return false
	}
	if news := s.heard.note(now, destination, b); news && s.config.Trace.Heard != nil {
		s.config.Trace.Heard(destination, retry.Limits{MaxAttempts: b.MaxAttempts, Floor: b.MinWait}, b.TTL)
	}
	return true
}

// Status is a view of a Switch for metrics and status pages.
type Status struct {
	Version uint64        // of the document in force; 0 = none
	TooOld  bool          // see Switch.TooOld
	Poll    time.Duration // time between two looks
	Heard   int           // destinations whose Retry-Policy applies
}

// StatusAt returns the present state.
func (s *Switch) StatusAt(now time.Time) Status {
	f := s.now.Load()
	return Status{Version: f.version, TooOld: f.tooOld, Poll: f.poll, Heard: s.heard.count(now)}
}
