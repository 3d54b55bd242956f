package sim

import (
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate"
	"github.com/comporta/comporta/gate/admission"
	"github.com/comporta/comporta/gate/calendar"
	"github.com/comporta/comporta/gate/identity"
	"github.com/comporta/comporta/internal/hash"
)

// gateOptions choose a part of the gate.
type gateOptions struct {
	mode    calendar.Mode
	reserve bool
	mute    bool // clients do not learn their instants
	learn   bool // nobody tells the gate its capacity
}

// Memory of the sightings: the default is for thousands of requests a second. For
// fewer, a table in which all that is remembered finds room as well gives the same
// decisions, and a run need not fill 32 MiB with zeros first.
const (
	leastMemory = 2 << 20
	mostMemory  = 32 << 20
	memoryEach  = 128 << 10 // for each operation a second: 16,000 sightings, of half an hour
)

// config is the gate as it is without a word of configuration, but for its
// capacity. The names of clients hang on a fixed key, so that runs repeat themselves.
func (o gateOptions) config(capacity int, demand float64) gate.Config {
	c := gate.Config{
		Admission: gate.Admission{Capacity: capacity},
		Repeats:   gate.Repeats{Memory: int(min(max(demand*memoryEach, leastMemory), mostMemory))},
		Slots:     calendar.Config{Mode: o.mode},
		Clients:   identity.Config{HashKey: [16]byte{'s', 'i', 'm'}},
	}
	if o.learn {
		c.Admission.Capacity = 0
	}
	if o.reserve {
		c.Admission.Policy, c.Admission.Reserve = admission.PolicyReserve, 0.3
	}
	return c
}

// gateway is the gate itself, without a transport: what decides here is the code
// that decides in production.
type gateway struct {
	gate  *gate.Gate
	limit int // 0: it moves
	mute  bool
	// plain: the service fails with a 500 that names no instant.
	plain bool
	// reserves says that permits are kept free for originals on purpose.
	reserves bool
	visits   []*visit
	spare    []uint32
	waiting  []uint32 // visits in the gate's queue, in the order of arrival
	in       int      // visits that hold a permit
	tickets  tickets
	// granted counts the permits that were handed to the queue, and jumped those of
	// them that a repeat got while originals waited: it is owed a twentieth.
	granted, jumped int
}

// visit is an attempt within the gate.
type visit struct {
	r       comporta.Request
	d       gate.Decision
	op      uint32
	id      uint64  // of the operation
	attempt uint16  // of the operation, so that its client is told only if it still waits
	since   instant // of its permit; of its wait, while it stands in the queue
	until   instant // of its wait
	ok      bool
	header  http.Header // of a client with a credential, which is all that it carries
	// credential is the header's only value, so that another one makes no garbage.
	credential []string
}

func openGate(o gateOptions) func(*engine) (door, error) {
	return func(e *engine) (door, error) {
		state, err := gate.NewStateFrom(epoch, hash.Fixed(e.dice.seed))
		if err != nil {
			return nil, fmt.Errorf("sim: %w", err)
		}
		g, err := gate.New(o.config(e.limit(), e.s.Demand), state)
		if err != nil {
			return nil, fmt.Errorf("sim: %w", err)
		}
		w := &gateway{gate: g, limit: e.limit(), mute: o.mute, reserves: o.reserve, tickets: newTickets()}
		if o.learn {
			w.limit = 0
		}
		w.remember(e)
		return w, nil
	}
}

// known is the share of the clients that were served within the day before.
const known = 0.95

// remember lets the gate meet those who were served the day before: a house that
// has been open for ten minutes knows its clients since yesterday.
func (g *gateway) remember(e *engine) {
	v := newVisit()
	for i := range e.s.Classes {
		first := e.population.offsets[i]
		for user := first; user < first+e.population.counts[i]; user++ {
			if e.dice.of(askKnown, uint64(user), 0) >= known {
				continue
			}
			at := epoch.Add(time.Duration(user)*time.Millisecond - 2*time.Hour)
			v.fill(e, &operation{name: uint64(user), user: user, class: uint8(i)}, "")
			v.d = g.gate.Begin(at, &v.r)
			if v.d.Action == comporta.ActionAdmit {
				v.d.FinishAt(at, comporta.Outcome{Status: http.StatusOK, Result: comporta.ResultSuccess, Latency: e.s.Service.Latency})
			}
		}
	}
}

func (g *gateway) inside() int { return g.in }

func newVisit() *visit {
	credential := make([]string, 1)
	return &visit{header: http.Header{"X-Api-Key": credential}, credential: credential}
}

func (g *gateway) open() uint32 {
	if n := len(g.spare); n > 0 {
		ref := g.spare[n-1]
		g.spare = g.spare[:n-1]
		return ref
	}
	g.visits = append(g.visits, newVisit())
	return uint32(len(g.visits) - 1)
}

func (g *gateway) close(ref uint32) { g.spare = append(g.spare, ref) }

// fill puts an attempt into the words of the gate. Its signals are written where the
// gate would write what it had read in a header: to read them costs more than to
// draw them.
func (v *visit) fill(e *engine, o *operation, ticket string) {
	r := &v.r
	r.Reset()
	r.Method, r.Host, r.Path, r.Remote = http.MethodPost, "api", "/orders", e.addressOf(o)
	name, user := namesOf(o)
	if user != "" {
		r.Header, v.credential[0] = v.header, user
	}
	if o.is(lookup) {
		r.Method, r.Query = http.MethodGet, name
	} else {
		r.IdempotencyKey = name
	}
	if o.attempts > 1 && e.s.Classes[o.class].SDK {
		r.Attempt = int(o.attempts) - 1
	}
	r.Ticket = ticket
}

// namesOf spells the name of what an operation asks for, and the credential of its
// client, which is empty if that is its network. One string holds both.
func namesOf(o *operation) (name, user string) {
	var b [2 * 13]byte // digits of 64 bits
	text := strconv.AppendUint(b[:0], o.name, 36)
	n := len(text)
	if !o.is(network) {
		text = strconv.AppendUint(text, uint64(o.user), 36)
	}
	both := string(text)
	return both[:n], both[n:]
}

// addressOf is where the operation comes from: one of the shared networks, each in
// a prefix of its own, or the address of its user.
func (e *engine) addressOf(o *operation) netip.Addr {
	if o.is(network) {
		n := e.networkOf(o)
		return netip.AddrFrom4([4]byte{172, byte(16 + n>>8), byte(n), 1})
	}
	return netip.AddrFrom4([4]byte{10, byte(o.user >> 16), byte(o.user >> 8), byte(o.user)})
}

func (g *gateway) arrive(e *engine, i uint32) {
	ref := g.open()
	v, o := g.visits[ref], &e.ops[i]
	v.op, v.id, v.attempt = i, o.id, o.attempts
	v.fill(e, o, g.tickets.take(&o.ticket))
	v.d = g.gate.Begin(e.time(e.now), &v.r)
	switch v.d.Action {
	case comporta.ActionAdmit:
		g.admit(e, ref)
	case comporta.ActionWait:
		v.since, v.until = e.now, instant(v.d.Waiter().Deadline().Sub(epoch))
		g.waiting = append(g.waiting, ref)
		e.agenda.add(v.until, evQueue, ref)
	case comporta.ActionRefuse, comporta.ActionReplay:
		g.refuse(e, ref)
	}
	g.ask(e) // an arrival may find that others' time is over
}

func (g *gateway) admit(e *engine, ref uint32) {
	v := g.visits[ref]
	g.in++
	if g.limit > 0 && g.in > g.limit {
		e.fault("more in flight than the limit")
	}
	v.since = e.now
	p := e.enter(v.op)
	v.ok = p.ok
	e.agenda.add(max(p.done, e.now+1), evDone, ref)
}

func (g *gateway) refuse(e *engine, ref uint32) {
	v := g.visits[ref]
	g.checkRefusal(e, v)
	defer g.close(ref)
	if v.d.Due.IsZero() {
		e.bar(v.op)
		return
	}
	o := &e.ops[v.op]
	due := instant(v.d.Due.Sub(epoch))
	if g.mute {
		due = 0
	} else if e.s.Classes[o.class].SDK {
		o.ticket = g.tickets.put(v.d.AppendTicket(nil))
	}
	e.refuse(v.op, due)
}

// done gives the permit back, and lets those in who got it.
func (g *gateway) done(e *engine, ref uint32) {
	v := g.visits[ref]
	outcome := comporta.Outcome{Status: http.StatusOK, Result: comporta.ResultSuccess, Latency: time.Duration(e.now - v.since)}
	if !v.ok {
		outcome.Status, outcome.Result = http.StatusServiceUnavailable, comporta.ResultFailed
		if g.plain {
			outcome.Status = http.StatusInternalServerError
		} else {
			g.advise(e, v)
		}
	}
	v.d.FinishAt(e.time(e.now), outcome)
	if g.in--; g.in < 0 {
		e.fault("more left than entered")
	}
	g.close(ref)
	g.ask(e)
}

// advise tells a client whose request the service failed when to come back, if it
// still waits to hear.
func (g *gateway) advise(e *engine, v *visit) {
	o := &e.ops[v.op]
	if g.mute || o.id != v.id || o.attempts != v.attempt || o.answer != failed {
		return
	}
	wait, ticket := v.d.TurnedAwayAt(e.time(e.now), 0)
	o.due = e.now + instant(wait)
	o.set(told, true)
	if e.s.Classes[o.class].SDK {
		o.ticket = g.tickets.put(ticket)
	}
}

// late ends the wait of a visit whose time in the queue is over.
func (g *gateway) late(e *engine, _ uint32) { g.ask(e) }

// ask looks who in the queue has an answer.
func (g *gateway) ask(e *engine) {
	if len(g.waiting) == 0 {
		return
	}
	now, kept := e.time(e.now), g.waiting[:0]
	originals, granted, jumpers := 0, 0, 0
	for _, ref := range g.waiting {
		v := g.visits[ref]
		switch {
		case v.waits(e.now) || !v.d.AnswerAt(now):
			kept = append(kept, ref)
			// Who came with this very event stood behind whoever was served in it.
			if original(v) && v.since < e.now {
				originals++
			}
		case v.d.Action == comporta.ActionAdmit:
			granted++
			if !original(v) {
				jumpers++
			}
			g.admit(e, ref)
		default:
			g.refuse(e, ref)
		}
	}
	g.granted += granted
	// In an attack whoever is believed goes first, whatever he asks.
	if originals > 0 && jumpers > 0 && g.gate.LevelAt(now) != gate.LevelAttack {
		g.jumped += jumpers
	}
	g.waiting = kept
}

// waits reports whether the visit still stands in the queue: there is no answer, and
// its time is not over.
func (v *visit) waits(now instant) bool {
	select {
	case <-v.d.Waiter().Ready():
		return false
	default:
		return now < v.until
	}
}

// original reports whether a visit ranks as a first attempt.
func original(v *visit) bool {
	s := &v.r.Sighting
	return (!s.Kind.Repeat() || s.Evidence <= comporta.EvidenceShared) && !v.r.Slot.Crowding
}

// checkRefusal holds a refusal against what the gate promises.
func (g *gateway) checkRefusal(e *engine, v *visit) {
	switch {
	case v.d.Due.IsZero():
	case v.d.Due.Before(e.time(e.now)):
		e.fault("an instant of return that has passed")
	case v.d.Queued > 0: // it was judged a moment ago
	case v.r.Slot.State == comporta.SlotEarly && !v.d.Due.Equal(v.r.Slot.Due):
		e.fault("an instant that was moved")
	case g.limit == 0 || len(g.waiting) > 0 || g.in >= g.limit:
	case original(v):
		e.fault("an original was refused before a free permit")
	case !g.reserves && float64(g.in) < 0.92*float64(g.limit):
		e.fault("a repeat was refused at a house with room")
	}
	const slack = 40 // permits; a debt may be carried over
	if g.jumped > g.granted/20+slack {
		e.fault("repeats were served before originals beyond what they are owed")
	}
}

// tickets keeps the tickets that clients hold, apart from the operations, which
// have no pointers.
type tickets struct {
	held []string
	free []uint32
}

func newTickets() tickets { return tickets{held: make([]string, 1)} } // 0 is none

func (t *tickets) put(ticket []byte) uint32 {
	if len(ticket) == 0 {
		return 0
	}
	if n := len(t.free); n > 0 {
		i := t.free[n-1]
		t.free = t.free[:n-1]
		t.held[i] = string(ticket)
		return i
	}
	t.held = append(t.held, string(ticket))
	return uint32(len(t.held) - 1)
}

// take returns a ticket and lets go of it.
func (t *tickets) take(at *uint32) string {
	i := *at
	if i == 0 {
		return ""
	}
	*at = 0
	t.free = append(t.free, i)
	ticket := t.held[i]
	t.held[i] = ""
	return ticket
}
