package admin

import (
	"time"

	"github.com/comporta/comporta/gate"
)

// Status is the answer of GET /api/v1/status.
type Status struct {
	Version     string    `json:"version"`
	Now         time.Time `json:"now"`
	Ready       bool      `json:"ready"`
	Verdict     string    `json:"verdict"`
	Level       string    `json:"level"`
	RepeatRatio float64   `json:"repeat_ratio"`

	// Of the last ten seconds.
	Requests        uint64 `json:"requests"`
	Repeats         uint64 `json:"repeats"`
	Refused         uint64 `json:"refused"`
	RefusedBelieved uint64 `json:"refused_believed"`

	Inflight int `json:"inflight"`
	Capacity int `json:"capacity"`
	Waiting  int `json:"waiting"`
	Streams  int `json:"streams"`

	Learning     string  `json:"learning,omitempty"` // mode of the learned limit; empty: static
	DrainPerS    float64 `json:"drain_per_s"`
	SparePerS    float64 `json:"spare_per_s"`
	SlotsWaiting int     `json:"slots_waiting"`
	Outage       bool    `json:"outage"`
}

func statusOf(g *gate.Gate, now time.Time) Status {
	s := g.StatsAt(now)
	st := Status{
		Now: now, Verdict: s.Verdict.String(), Level: s.Level.String(), RepeatRatio: s.Traffic.RepeatRatio(),
		Requests: s.Traffic.Requests, Repeats: s.Traffic.Repeats, Refused: s.Traffic.Refused, RefusedBelieved: s.Traffic.RefusedBelieved,
		Inflight: s.Inflight, Capacity: s.Capacity, Waiting: s.Waiting, Streams: s.Streams,
		DrainPerS: s.Estimates.Drain, SparePerS: s.Estimates.Spare, SlotsWaiting: s.Estimates.Waiting, Outage: s.Estimates.Outage,
	}
	if s.Learned != nil {
		st.Learning = s.Learned.Mode.String()
	}
	return st
}

// Upstream is one line of GET /api/v1/upstreams.
type Upstream struct {
	URL      string  `json:"url"`
	Healthy  bool    `json:"healthy"` // by its checks
	Breaker  string  `json:"breaker"` // closed, open or half_open
	Share    float64 `json:"share"`   // of its traffic: below 1 while it comes back
	Inflight int64   `json:"inflight"`
	Waiting  int     `json:"waiting"` // for a connection
}

// Upstreams is the answer of GET /api/v1/upstreams.
type Upstreams struct {
	Upstreams []Upstream `json:"upstreams"`
}

// Client is one line of GET /api/v1/who.
type Client struct {
	Client string `json:"client"`
	Kind   string `json:"kind"`
	Recent uint64 `json:"recent"` // within the last one to two minutes
	Total  uint64 `json:"total"`  // at most Error too high
	Error  uint64 `json:"error"`
}

// Who is the answer of GET /api/v1/who.
type Who struct {
	Clients []Client `json:"clients"`
}

// ShedRequest is the body of POST /api/v1/shed.
type ShedRequest struct {
	Route   string `json:"route,omitempty"`
	Client  string `json:"client,omitempty"`
	Version string `json:"version,omitempty"`
	Percent int    `json:"percent"`
	TTLS    int64  `json:"ttl_s"`
}

// Levers is the answer of GET /api/v1/shed.
type Levers struct {
	Levers []gate.Lever `json:"levers"`
}

// PolicyRequest is the body of PUT /api/v1/policy.
type PolicyRequest struct {
	Max   int   `json:"max"`
	MinMs int64 `json:"min_ms"`
	TTLS  int64 `json:"ttl_s"`
}

// PolicyStatus is the answer of GET /api/v1/policy.
type PolicyStatus struct {
	Set    bool      `json:"set"`
	Max    int       `json:"max,omitempty"`
	MinMs  int64     `json:"min_ms,omitempty"`
	Until  time.Time `json:"until,omitzero"`
	Header string    `json:"header,omitempty"` // as it rides on refusals
}

// LevelRequest is the body of PUT /api/v1/level.
type LevelRequest struct {
	Level string `json:"level"` // normal, busy, overload or attack
	TTLS  int64  `json:"ttl_s"`
}

// LevelStatus is the answer of GET /api/v1/level.
type LevelStatus struct {
	Level  string    `json:"level"`
	Pinned bool      `json:"pinned"`
	Until  time.Time `json:"until,omitzero"` // of the pin
}

// Answer is the body of the probes and of a reload.
type Answer struct {
	Status string `json:"status"` // ok, ready, draining or reloaded
}

// Failure is the body of every answer that is an error.
type Failure struct {
	Error string `json:"error"`
}
