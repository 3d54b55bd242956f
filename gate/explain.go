package gate

import (
	"fmt"
	"net/http"
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
	Rule      string    `json:"rule,omitempty"` // the first rate rule that denied it
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
// hot path of a flood, its words are read once in a while. It holds no string of
// the request: one such string keeps the whole head of the request alive, and
// what a caller wrote into it.
type explained struct {
	id                 short
	serial             uint64
	method, route      string // of the program and of the configuration
	name, rule         string // of the configuration
	app                short
	version            [3]uint32
	at                 time.Time
	client             uint64
	class              comporta.Class
	shared             bool
	sighting           comporta.Sighting
	slot               comporta.SlotState
	decision           comporta.Decision
	inflight, capacity int
	verdict            Verdict
}

// short is a text of up to maxRequestID bytes that needs no memory of its own.
type short struct {
	length uint8
	bytes  [maxRequestID]byte
}

func shortOf(s string) (t short) {
	t.length = uint8(copy(t.bytes[:], s))
	return t
}

func (t *short) text() string { return string(t.bytes[:t.length]) }

// methodName returns a method of HTTP as a constant, and OTHER for the rest.
func methodName(m string) string {
	for _, known := range [...]string{
		http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch,
		http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodConnect,
	} {
		if m == known {
			return known
		}
	}
	return "OTHER"
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

// find returns the newest refusal with the id; named gives the id of a serial.
func (e *explainRing) find(id string, named func(serial uint64) string) (explained, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range min(e.count, explainSize) {
		x := &e.ring[(e.count-1-i)%explainSize]
		if x.id.length == 0 {
			x.id = shortOf(named(x.serial))
		}
		if string(x.id.bytes[:x.id.length]) == id {
			return *x, true
		}
	}
	return explained{}, false
}

func (x *explained) words() Explanation {
	e := Explanation{
		RequestID: x.id.text(), At: x.at, Rule: x.rule, Method: x.method, Route: x.route,
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
	if x.app.length > 0 {
		e.Version = fmt.Sprintf("%s/%d.%d.%d", x.app.text(), x.version[0], x.version[1], x.version[2])
	}
	return e
}
