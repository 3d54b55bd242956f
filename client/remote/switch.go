package remote

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/internal/retrypolicy"
)

// Path is where a service publishes its document.
const Path = retrypolicy.Path

// Switch keeps what a service last said about repeats. Make one with New, one
// for each service; its methods may be called from many goroutines.
type Switch struct {
	config Config
	agent  string // Client-Version, or empty

	now   atomic.Pointer[inForce]
	brief atomic.Pointer[brief] // nil when nothing was heard

	applying sync.Mutex // one document after the other, in memory and in the file
	kept     bool       // the file has the document in force; guarded by applying
	running  atomic.Bool
}

// inForce is a document as this client obeys it. It is immutable.
type inForce struct {
	version    uint64 // 0: no document yet
	etag, text string // as they came
	limits     Limits
	routes     map[string]Limits // by path without the slash at its end
	burst      int
	perSuccess float64
	poll       time.Duration
	tooOld     bool
}

// own returns what is in force without a document.
func (s *Switch) own() *inForce {
	return &inForce{
		limits: s.config.Ceiling, burst: s.config.Burst, perSuccess: s.config.PerSuccess, poll: s.config.Poll,
	}
}

// of returns what a document means to this client.
func (s *Switch) of(doc *retrypolicy.Document, etag, text string) *inForce {
	f := s.own()
	f.version, f.etag, f.text = doc.Version, etag, text
	f.limits = s.within(doc.Limits)
	if len(doc.Routes) > 0 {
		f.routes = make(map[string]Limits, len(doc.Routes))
		for path, l := range doc.Routes {
			f.routes[path] = s.within(l.Over(doc.Limits))
		}
	}
	if doc.Burst != nil {
		f.burst = min(f.burst, *doc.Burst)
	}
	if doc.PerSuccess != nil {
		f.perSuccess = min(f.perSuccess, *doc.PerSuccess)
	}
	if doc.Poll > 0 {
		f.poll = min(max(doc.Poll, min(minPoll, s.config.Poll)), maxPoll)
	}
	v := s.config.Version
	f.tooOld = v.Name != "" && v.Name == doc.Minimum.Name && v.Compare(doc.Minimum) < 0
	return f
}

// within returns what a document asks for, as far as it tightens the ceiling.
func (s *Switch) within(asked retrypolicy.Limits) Limits {
	l := s.config.Ceiling
	if n := asked.Attempts(); n > 0 {
		l.MaxAttempts = min(l.MaxAttempts, n)
	}
	if asked.Total != nil {
		l.Total = min(l.Total, *asked.Total)
	}
	if asked.MinWait != nil {
		l.Floor = max(l.Floor, *asked.MinWait)
	}
	if asked.MaxWait != nil {
		l.Cap = max(l.Cap, *asked.MaxWait)
	}
	return l
}

// Limits is LimitsAt for now.
func (s *Switch) Limits(path string) Limits { return s.LimitsAt(time.Now(), path) }

// LimitsAt returns what applies to a call of a path: the client's own policy,
// tightened by the document (by the route of the longest path that covers this
// one, where it says something), and by what a refusal said.
func (s *Switch) LimitsAt(now time.Time, path string) Limits {
	f := s.now.Load()
	l, ok := retrypolicy.Route(f.routes, path)
	if !ok {
		l = f.limits
	}
	if b := s.heard(now); b != nil {
		if b.MaxAttempts > 0 {
			l.MaxAttempts = min(l.MaxAttempts, b.MaxAttempts)
		}
		l.Floor = max(l.Floor, b.MinWait)
	}
	return l
}

// Budget returns how many repeats may be made before any success, and how many a
// success earns. It changes when Trace.Applied is called.
func (s *Switch) Budget() (burst int, perSuccess float64) {
	f := s.now.Load()
	return f.burst, f.perSuccess
}

// TooOld reports whether the service has said that it no longer serves this
// version of the program. Its calls can only fail.
func (s *Switch) TooOld() bool { return s.now.Load().tooOld }

// brief is a Retry-Policy that was heard.
type brief struct {
	retrypolicy.Brief
	until int64 // Unix nanoseconds
}

// HeardAt takes note of a Retry-Policy in the head of a response of the service;
// call it before deciding about a repeat. The last one heard counts, until its
// ttl is over. It reports whether there was one that could be read.
func (s *Switch) HeardAt(now time.Time, h http.Header) bool {
	values := h[comporta.HeaderRetryPolicy]
	if len(values) == 0 {
		return false
	}
	policy, ok := retrypolicy.ParseBrief(values[0])
	if !ok {
		return false
	}
	next := brief{policy, now.UnixNano() + int64(policy.TTL)}
	was := s.heard(now)
	same := was != nil && was.MaxAttempts == next.MaxAttempts && was.MinWait == next.MinWait
	// Its ttl shrinks from refusal to refusal, so the end stays within a second.
	if same && max(was.until-next.until, next.until-was.until) <= int64(time.Second) {
		return true
	}
	s.brief.Store(&brief{next.Brief, next.until})
	if !same && s.config.Trace.Heard != nil {
		s.config.Trace.Heard(policy.MaxAttempts, policy.MinWait, policy.TTL)
	}
	return true
}

// heard returns the Retry-Policy that applies; nil when there is none.
func (s *Switch) heard(now time.Time) *brief {
	b := s.brief.Load()
	if b == nil {
		return nil
	}
	switch left := b.until - now.UnixNano(); {
	case left <= 0:
		return nil
	case left > int64(b.TTL):
		// The clock stepped back; the policy must not live longer for it.
		s.brief.CompareAndSwap(b, &brief{b.Brief, now.UnixNano() + int64(b.TTL)})
	}
	return b
}

// Status is a view of a Switch for metrics and status pages.
type Status struct {
	Version uint64        // of the document in force; 0 = none
	TooOld  bool          // see Switch.TooOld
	Poll    time.Duration // time between two looks
	Heard   time.Duration // how long a Retry-Policy applies; 0 = none does
}

// StatusAt returns the present state.
func (s *Switch) StatusAt(now time.Time) Status {
	f := s.now.Load()
	status := Status{Version: f.version, TooOld: f.tooOld, Poll: f.poll}
	if b := s.heard(now); b != nil {
		status.Heard = min(time.Duration(b.until-now.UnixNano()), b.TTL)
	}
	return status
}
