package gate

import (
	"fmt"
	"sync"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate/identity"
)

// explainSize is how many refusals are remembered for `comporta explain`.
const explainSize = 4096

// Explanation is what the gate knew when it refused one request.
type Explanation struct {
	RequestID string    `json:"request_id"`
	At        time.Time `json:"at"`
	Reason    string    `json:"reason"`
	Meaning   string    `json:"meaning"`
	Observed  bool      `json:"observed,omitempty"` // observe mode: it was let in all the same

	Method string `json:"method"`
	Route  string `json:"route"`

	Client  string `json:"client"` // readable name or key
	Class   string `json:"class"`
	Shared  bool   `json:"shared,omitempty"`
	Version string `json:"version,omitempty"`

	Kind     string `json:"kind"`
	Evidence string `json:"evidence"`
	Attempts int    `json:"attempts"`
	Slot     string `json:"slot"`

	Due      time.Time `json:"due,omitzero"`
	WaitMs   int64     `json:"wait_ms,omitempty"`
	QueuedMs int64     `json:"queued_ms,omitempty"`

	Inflight int    `json:"inflight"`
	Capacity int    `json:"capacity"`
	Verdict  string `json:"verdict"`
}

// explained is an Explanation before it is put into words: a refusal is on the
// hot path of a flood, its words are read once in a while.
type explained struct {
	id, method, route, name string
	version                 comporta.ClientVersion
	at                      time.Time
	client                  uint64
	class                   comporta.Class
	shared                  bool
	sighting                comporta.Sighting
	slot                    comporta.SlotState
	decision                comporta.Decision
	inflight, capacity      int
	verdict                 Verdict
}

// explainRing remembers the newest refusals, whatever their number.
type explainRing struct {
	mu    sync.Mutex
	ring  []explained // made at the first refusal
	count uint64
}

func (e *explainRing) add(x *explained) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ring == nil {
		e.ring = make([]explained, explainSize)
	}
	e.ring[e.count%explainSize] = *x
	e.count++
}

// find returns the newest refusal with the id.
func (e *explainRing) find(id string) (explained, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range min(e.count, explainSize) {
		if x := &e.ring[(e.count-1-i)%explainSize]; x.id == id {
			return *x, true
		}
	}
	return explained{}, false
}

func (x *explained) words() Explanation {
	e := Explanation{
		RequestID: x.id, At: x.at, Method: x.method, Route: x.route,
		Client: x.name, Class: x.class.String(), Shared: x.shared,
		Kind: x.sighting.Kind.String(), Evidence: x.sighting.Evidence.String(), Attempts: x.sighting.Attempts,
		Slot: x.slot.String(), Due: x.decision.Due, WaitMs: x.decision.Wait.Milliseconds(), QueuedMs: x.decision.Queued.Milliseconds(),
		Inflight: x.inflight, Capacity: x.capacity, Verdict: x.verdict.String(),
	}
	reason := x.decision.Reason
	if x.decision.WouldRefuse != comporta.ReasonNone {
		reason, e.Observed = x.decision.WouldRefuse, true
	}
	e.Reason, e.Meaning = reason.String(), reason.Info().Meaning
	if e.Client == "" {
		e.Client = identity.KeyString(x.client)
	}
	if x.version.Name != "" {
		e.Version = fmt.Sprintf("%s/%d.%d.%d", x.version.Name, x.version.Major, x.version.Minor, x.version.Patch)
	}
	return e
}
