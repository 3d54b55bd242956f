package gate

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate/admission"
	"github.com/comporta/comporta/gate/admission/seek"
	"github.com/comporta/comporta/gate/calendar"
	"github.com/comporta/comporta/gate/identity"
	"github.com/comporta/comporta/gate/overload"
	"github.com/comporta/comporta/gate/ratelimit"
	"github.com/comporta/comporta/gate/repeat"
)

// Gate decides on requests. It is compiled by New and never changes; all that
// changes lies in its State. Methods may be called from many goroutines, those
// of one Decision by one goroutine at a time.
type Gate struct {
	state      *State
	signals    comporta.Signals
	routes     *routes
	identifier *identity.Identifier
	aliases    []*identity.Identifier // by the older keys of the ring, while one is rotated
	detector   *repeat.Detector
	table      *repeat.Table
	admission  *admission.Controller
	learned    *seek.Limit // nil: static capacity
	slots      *calendar.Calendar
	limiter    *ratelimit.Limiter // nil: no rate rules
	rates      *ratelimit.Table
	stores     map[string]ratelimit.Store // of rate rules, beside the table
	contract   *overload.Writer
	challenge  Challenge // nil: none
	keys       *keyed    // nil: keys are not kept
	trace      Trace

	shortCircuit  bool
	nameRequests  bool
	bodyLimit     int64
	bufferedLimit int64
	limits        Limits
}

// State returns what outlives the gate.
func (g *Gate) State() *State { return g.state }

// Contract returns the writer of the gate's refusals.
func (g *Gate) Contract() *overload.Writer { return g.contract }

// Identifier returns what tells clients apart.
func (g *Gate) Identifier() *identity.Identifier { return g.identifier }

// RouteOf returns the route of a request.
func (g *Gate) RouteOf(r *comporta.Request) *Route { return &g.routes.list[r.Route] }

// HasRoute reports whether a route of that name is configured, or is "other".
func (g *Gate) HasRoute(name string) bool {
	return slices.ContainsFunc(g.routes.list, func(r Route) bool { return r.Name == name })
}

// RouteNames returns the name of every route once, in the order of the
// configuration, and "other" last.
func (g *Gate) RouteNames() []string {
	var names []string
	for i := range g.routes.list[1:] {
		if name := g.routes.list[i+1].Name; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return append(names, g.routes.list[otherRoute].Name)
}

// Decision is what the gate said of one request, and the way to tell it what
// became of it. A Decision with ActionWait goes through Await first; one with
// ActionAdmit must be finished.
type Decision struct {
	comporta.Decision

	gate    *Gate
	r       *comporta.Request
	permit  admission.Permit
	waiter  *admission.Waiter
	booking calendar.Booking
	digest  uint64 // of the body, 0 = unknown
	answer  repeat.Answer
	since   time.Time // of the admission
	exempt  bool
	again   time.Duration // wait of a refusal that books no instant; 0: the standard one
	// ticketed: the request brought a ticket of ours, which ends here.
	ticketed bool
	verdict  *ratelimit.Verdict // memory for Limits; nil: made when rules are asked
	// MinimumVersion is what a client that is too old needs.
	MinimumVersion string
	// Limits is what the rate rules said; nil when they were not asked.
	Limits *ratelimit.Verdict
	// Stop: coming back does not help, although the reason would allow it.
	Stop bool
}

// Begin decides on a request. Stages run in the order of the package comment.
//
// The caller keeps r, and the Decision keeps a pointer to it, until the request
// is finished.
func (g *Gate) Begin(now time.Time, r *comporta.Request) (d Decision) {
	g.signals.Read(r.Header, r)
	g.begin(now, r, &d)
	return d
}

// begin is Begin for a request whose signals have been read, into a zero Decision.
func (g *Gate) begin(now time.Time, r *comporta.Request, d *Decision) {
	if g.approach(now, r, d) {
		g.enter(now, r, d)
	}
}

// approach takes a request through all stages before admission. False: it is
// decided, or bypasses the gate.
func (g *Gate) approach(now time.Time, r *comporta.Request, d *Decision) bool {
	d.gate, d.r, d.since = g, r, now
	// What is looked up in large tables is fetched as soon as its place is known,
	// so that the misses of the processor's caches overlap with each other and
	// with what needs no table.
	g.identifier.NameAt(now, r)
	g.detector.Prepare(r)
	r.Route = g.routes.find(r.Method, r.Host, r.Path)
	g.identifier.RankAt(now, r)
	g.slots.Prepare(now, r)
	if len(g.aliases) > 0 && r.Client.Class == comporta.ClassAnonymous {
		g.rankByAlias(now, r)
	}
	if g.routes.list[r.Route].Exempt || comporta.Preflight(r.Method, r.Header) {
		d.exempt = true
		g.state.counters.exempt.Add(1)
		return false
	}
	d.ticketed = g.slots.LookAt(now, r).Authentic
	reason := g.early(now, r, d)
	if reason == comporta.ReasonNone && g.limiter != nil {
		reason = d.limitAt(now)
	}
	if reason == comporta.ReasonNone && g.challenge != nil {
		reason = d.challengeAt(now)
	}
	if reason == comporta.ReasonNone && r.Body != nil && g.wantsBody(r) {
		d.digest, _ = r.Body.DigestBody()
	}
	g.detector.SeeAt(now, r, d.digest, d.ticketed)
	if reason != comporta.ReasonNone {
		d.refuseAt(now, reason)
		return false
	}
	if g.shortCircuit {
		if a, ok := g.detector.AnswerAt(now, r, d.digest); ok {
			d.replayAt(now, a)
			return false
		}
	}
	return true
}

// enter is admission.
func (g *Gate) enter(now time.Time, r *comporta.Request, d *Decision) {
	grant := g.admission.AdmitAt(now, r, g.viewAt(now))
	d.settleAt(now, &grant)
}

// aliasAt names the client of r as the i-th key of the ring would, from 1 on.
func (g *Gate) aliasAt(now time.Time, i int, r *comporta.Request) comporta.Client {
	old := *r
	g.aliases[i-1].IdentifyAt(now, &old)
	return old.Client
}

// rankByAlias believes a client that was proven under a key which is about to go:
// a rotation must not make strangers of everybody.
func (g *Gate) rankByAlias(now time.Time, r *comporta.Request) {
	for i := range g.aliases {
		if c := g.aliasAt(now, i+1, r); c.Class == comporta.ClassProven {
			r.Client.Class = comporta.ClassProven
			return
		}
	}
}

// RejectAt refuses what is no proper request: a fault of its head.
func (g *Gate) RejectAt(now time.Time, r *comporta.Request, reason comporta.Reason) Decision {
	g.identifier.IdentifyAt(now, r)
	d := Decision{gate: g, r: r, since: now}
	d.refuseAt(now, reason)
	return d
}

// early is what needs no sighting to say no. The refused still file one.
func (g *Gate) early(now time.Time, r *comporta.Request, d *Decision) comporta.Reason {
	state, minimum := g.identifier.CheckVersion(r)
	switch {
	case state.Refused():
		d.MinimumVersion = minimum
		return comporta.ClientTooOld
	case state == identity.VersionAbsent:
		g.state.counters.versionAbsent.Add(1)
	}
	if r.Patience > 0 && r.Patience < time.Millisecond {
		return comporta.DeadlineExceeded
	}
	if reason := g.keys.fault(r, &d.Detail); reason != comporta.ReasonNone {
		return reason
	}
	if g.state.levers.list.Load() != nil {
		draw := g.state.seed.Start().Uint(r.Client.Key).Str(r.Method).Str(r.Path).Str(r.IdempotencyKey).Name()
		if g.state.levers.shedsAt(now, r, g.routes.list[r.Route].Name, draw) {
			return comporta.ShedByOperator
		}
	}
	return comporta.ReasonNone
}

// wantsBody: reading ahead costs memory and time, so it is done only where the
// body decides and pressure makes the decision matter, and never when the house
// is full: then nothing that is read could change the answer.
func (g *Gate) wantsBody(r *comporta.Request) bool {
	inflight, limit := g.admission.Load()
	return g.detector.WantsBody(r, 2*inflight >= limit) && !g.admission.Full()
}

func (g *Gate) viewAt(now time.Time) admission.View {
	return admission.View{Attack: g.LevelAt(now) == LevelAttack}
}

func (g *Gate) load() calendar.Load {
	inflight, limit := g.admission.Load()
	return calendar.Load{Inflight: inflight, Limit: limit}
}

// settleAt turns admission's answer into the gate's.
func (d *Decision) settleAt(now time.Time, grant *admission.Grant) {
	d.Queued = grant.Queued
	switch {
	case grant.Waiter != nil:
		d.Action, d.waiter = comporta.ActionWait, grant.Waiter
	case grant.Admitted():
		d.Action, d.permit, d.since = comporta.ActionAdmit, grant.Permit, now
		d.gate.slots.AdmittedAt(now, d.r)
		if grant.WouldRefuse != comporta.ReasonNone {
			d.WouldRefuse = grant.WouldRefuse
			d.gate.state.counters.would[d.r.Sighting.Kind%kinds][grant.WouldRefuse].Add(1)
			d.explainAt(now)
		}
	default:
		d.refuseAt(now, grant.Reason)
	}
}

// errPatience is the cause of a request's end when its caller's patience ran out.
var errPatience = errors.New("gate: the caller's patience ran out")

// Await stands in the queue until the request is admitted or refused, or ctx
// ends. Only a Decision with ActionWait waits.
func (d *Decision) Await(ctx context.Context) {
	if d.waiter == nil {
		return
	}
	grant, err := d.waiter.Await(ctx)
	now := time.Now()
	d.waiter = nil
	if err != nil { // the caller left the queue: nobody reads the refusal
		d.Queued = now.Sub(d.since)
		d.refuseAs(now, comporta.CapacityExhausted, comporta.ResultAbandoned)
		return
	}
	if grant.Reason == comporta.CapacityExhausted && d.r.Patience > 0 && grant.Queued >= d.r.Patience {
		grant.Reason = comporta.DeadlineExceeded
	}
	d.settleAt(now, &grant)
}

// Waiter is for a face with a clock of its own, such as a simulator: it waits by
// the waiter's deadline and asks AnswerAt. Nil unless the action is ActionWait.
func (d *Decision) Waiter() *admission.Waiter { return d.waiter }

// AnswerAt is Await for a face with a clock of its own: it settles the Decision if
// the wait is over at now.
func (d *Decision) AnswerAt(now time.Time) (answered bool) {
	if d.waiter == nil {
		return true
	}
	grant, ok := d.waiter.AnswerAt(now)
	if ok {
		d.waiter = nil
		d.settleAt(now, &grant)
	}
	return ok
}

func (d *Decision) refuseAt(now time.Time, reason comporta.Reason) {
	d.refuseAs(now, reason, comporta.ResultRefused)
}

func (d *Decision) refuseAs(now time.Time, reason comporta.Reason, result comporta.Result) {
	g, r := d.gate, d.r
	d.Action, d.Reason = comporta.ActionRefuse, reason
	info := reason.Info()
	d.refundAt(now)
	switch {
	case d.limited(reason):
		d.Stop = d.Limits.Stop
		if info.Retryable && !d.Stop {
			d.Wait = max(d.Limits.Wait, time.Millisecond)
			d.Due = now.Add(d.Wait)
		}
	case info.Slotted:
		d.booking = g.slots.BookAt(now, r, reason, g.load())
		d.Due = d.booking.Due
		d.Wait = d.Due.Sub(now)
	case info.Retryable:
		d.Wait = cmp.Or(d.again, overload.DefaultWait)
		d.Due = now.Add(d.Wait)
	}
	o := comporta.Outcome{Status: info.Status, Result: result}
	g.detector.ResolveAt(now, r, o)
	g.state.counters.count(r.Sighting.Kind, g.classOf(r), int(reason))
	g.state.watch.countAt(now, r, true)
	d.explainAt(now)
	if g.trace.Done != nil {
		g.trace.Done(now, r, d.Decision, o)
	}
}

func (d *Decision) replayAt(now time.Time, a repeat.Answer) {
	g, r := d.gate, d.r
	d.Action, d.Reason, d.answer = comporta.ActionReplay, comporta.HopelessRepeat, a
	o := comporta.Outcome{Status: a.Status, Result: comporta.ResultRefused}
	g.detector.ResolveAt(now, r, o)
	g.state.counters.count(r.Sighting.Kind, g.classOf(r), int(comporta.HopelessRepeat))
	g.state.watch.countAt(now, r, false)
	if g.trace.Done != nil {
		g.trace.Done(now, r, d.Decision, o)
	}
}

// classOf is the label of the request's class.
func (g *Gate) classOf(r *comporta.Request) comporta.Class {
	if g.routes.list[r.Route].Class == RouteInternal {
		return comporta.ClassInternal
	}
	return r.Client.Class
}

// HeadAt tells the outcome as far as the head of the answer says it, so that a
// client which asks again while the body still flows is seen for what it does.
// hopeless: the same request has now failed like this too often to be worth
// repeating.
func (d *Decision) HeadAt(now time.Time, o comporta.Outcome) (hopeless bool) {
	if d.exempt {
		return false
	}
	return d.gate.detector.ResolveAt(now, d.r, o)
}

// StreamAt moves the request from the gate to the streams. False: there are too
// many; the request keeps its permit.
func (d *Decision) StreamAt(now time.Time) bool {
	if d.exempt {
		return true
	}
	return d.permit.StreamAt(now)
}

// FinishAt gives the permit back and files the outcome. Call it before the last
// byte of the answer leaves. Only the first call counts.
func (d *Decision) FinishAt(now time.Time, o comporta.Outcome) {
	g, r := d.gate, d.r
	if d.exempt {
		return
	}
	// Counters first: whoever sees the permit free sees the request counted.
	if !d.permit.Held() {
		return
	}
	g.detector.ResolveAt(now, r, o)
	g.slots.DoneAt(now, o, g.load())
	if o.Status >= 200 && o.Status < 400 && !g.routes.list[r.Route].Public {
		g.identifier.ProveAt(now, r)
	}
	g.state.counters.count(r.Sighting.Kind, g.classOf(r), countAdmitted)
	g.state.watch.countAt(now, r, d.WouldRefuse != comporta.ReasonNone) // observe mode: as if refused
	d.permit.ReleaseAt(now, o)
	if g.trace.Done != nil {
		g.trace.Done(now, r, d.Decision, o)
	}
}

// CorrectAt replaces the outcome that FinishAt or HeadAt told: the answer was cut
// off after its head.
func (d *Decision) CorrectAt(now time.Time, o comporta.Outcome) {
	if !d.exempt {
		d.gate.detector.ResolveAt(now, d.r, o)
	}
}

// AppendTicket appends the signed ticket of the refusal's instant to dst; nothing
// when no instant was given.
func (d *Decision) AppendTicket(dst []byte) []byte {
	if d.Due.IsZero() || !d.Reason.Info().Slotted {
		return dst
	}
	return d.gate.slots.AppendTicket(dst, d.r, d.booking)
}

// TurnedAwayAt is refuseAt for a request that had been admitted: the service, or
// the proxy before it, says no. It books the instant of the return, not earlier
// than the service wants, and remembers why. FinishAt files the outcome.
func (d *Decision) TurnedAwayAt(now time.Time, atLeast time.Duration) (wait time.Duration, ticket []byte) {
	g := d.gate
	d.booking = g.slots.BookAnsweredAt(now, d.r, g.load(), atLeast)
	d.Due = d.booking.Due
	if d.Wait = d.Due.Sub(now); d.Wait < atLeast {
		// An instant of before is nearer than the service wants now: its word
		// counts, and is no place in the calendar.
		d.Wait, d.Due = atLeast, now.Add(atLeast)
		return d.Wait, nil
	}
	return d.Wait, g.slots.AppendTicket(nil, d.r, d.booking)
}

// explainAt remembers the refusal for `comporta explain`.
func (d *Decision) explainAt(now time.Time) {
	g, r := d.gate, d.r
	if r.ID == "" && r.Serial == 0 {
		return
	}
	rule := ""
	if names := d.violated(); len(names) > 0 {
		rule = names[0]
	}
	inflight, limit := g.admission.Load()
	g.state.explained.add(&explained{
		rule: rule,
		id:   shortOf(r.ID), serial: r.Serial, method: methodName(r.Method), route: g.routes.list[r.Route].Name, name: r.Client.Name,
		app: shortOf(r.Version.Name), version: [3]uint32{r.Version.Major, r.Version.Minor, r.Version.Patch},
		at: now, client: r.Client.Key, class: r.Client.Class, shared: r.Client.Shared,
		sighting: r.Sighting, slot: r.Slot.State, decision: d.Decision,
		inflight: inflight, capacity: limit, verdict: g.state.watch.verdictAt(now),
	})
}
