package admission

import (
	"testing"
	"time"

	"github.com/comporta/comporta"
)

// cases/overload.md 5: zero means zero, also while nothing is running.
func TestCase_Overload_A5_ZeroAdmitsNothing(t *testing.T) {
	for _, policy := range []Policy{PolicyPriority, PolicyReserve} {
		var s State
		c := newController(t, Config{Policy: policy, QueueWait: 100 * ms}, &s)
		for _, r := range []*comporta.Request{original(1), retry(1), slotted(1, comporta.SlotRedeemed)} {
			mustRefuse(t, c, t0, r, View{Attack: true}, comporta.CapacityExhausted)
		}
		l := new(learner)
		c = newController(t, Config{Policy: policy, Learner: l, QueueWait: 100 * ms, Routes: []Route{{Weight: 3}}}, &s)
		mustRefuse(t, c, t0, original(1), View{}, comporta.CapacityExhausted)
		atRest(t, &s)
	}
}

// cases/overload.md 6, the part that a configuration cannot know: a learned
// limit below the weight lets the request in alone, and only then.
func TestCase_Overload_A6_HeavierThanTheLearnedLimit(t *testing.T) {
	var s State
	l := new(learner)
	l.limit.Store(4)
	c := newController(t, Config{Learner: l, Ceiling: 100, QueueWait: 100 * ms, Routes: []Route{{}, {Weight: 10}}}, &s)
	heavy := original(1)
	heavy.Route = 1
	light := mustAdmit(t, c, t0, original(2))
	w := mustWait(t, c, t0, heavy, View{})
	mustRefuse(t, c, t0, original(3), View{}, comporta.CapacityExhausted) // 3 permits are free, but it may not pass
	light.ReleaseAt(at(2*ms), success(2*ms))
	if in := c.StatsAt(at(2 * ms)).InFlight; in != 4 || !served(w, at(2*ms)) {
		t.Fatalf("%d in flight, want the heavy one to hold all 4", in)
	}
	got(w, at(2*ms)).ReleaseAt(at(5*ms), success(3*ms))
	mustAdmit(t, c, at(5*ms), original(3)).ReleaseAt(at(6*ms), success(ms))
	atRest(t, &s)
}

// A heavy waiter blocks those behind it for its own wait at most.
func TestHeavyWaiterGivesWayAtItsDeadline(t *testing.T) {
	var s State
	c := newController(t, Config{Capacity: 8, QueueWait: 100 * ms, Routes: []Route{{}, {Weight: 8}}}, &s)
	p := mustAdmit(t, c, t0, original(1))
	heavy := original(2)
	heavy.Route = 1
	w := mustWait(t, c, t0, heavy, View{})
	light := mustWait(t, c, at(50*ms), original(3), View{})
	mustRefuse(t, c, at(50*ms), retry(9), View{}, comporta.RetryDeferred) // 7 permits are free and withheld
	if g, ok := w.AnswerAt(at(100 * ms)); !ok || g.Reason != comporta.CapacityExhausted || g.Queued != 100*ms {
		t.Fatalf("the heavy one at its deadline: %v %+v", ok, g)
	}
	if !served(light, at(100*ms)) {
		t.Fatal("the light one still waits")
	}
	got(light, at(100*ms)).ReleaseAt(at(101*ms), success(ms))
	p.ReleaseAt(at(101*ms), success(ms))
	atRest(t, &s)
}

// cases/overload.md 9: the cap of the queue is hard, and needs no background task.
func TestCase_Overload_A9_TheQueueIsBounded(t *testing.T) {
	var s State
	c := newController(t, Config{Capacity: 100, QueueWait: time.Hour}, &s)
	fill(t, c, t0, 100)
	for i := range 25 {
		mustWait(t, c, t0, original(uint64(1+i)), View{})
	}
	began := time.Now()
	for i := range 475 {
		mustRefuse(t, c, t0, original(uint64(100+i)), View{}, comporta.CapacityExhausted)
	}
	if took := time.Since(began); took > 475*ms {
		t.Errorf("a refusal took %v", took/475)
	}
	if st := c.StatsAt(t0); st.Waiting != 25 {
		t.Errorf("%d wait, want 25", st.Waiting)
	}
	// Nobody collects those whose time is over; the next arrival does.
	w := mustWait(t, c, at(2*time.Hour), original(7), View{})
	if st := c.StatsAt(at(2 * time.Hour)); st.Waiting != 1 {
		t.Errorf("%d wait, want 1", st.Waiting)
	}
	w.AbandonAt(at(2 * time.Hour))
}

func TestQueueOfOneAtLeast(t *testing.T) {
	var s State
	c := newController(t, Config{Capacity: 1, QueueWait: 100 * ms}, &s)
	p := mustAdmit(t, c, t0, original(1))
	w := mustWait(t, c, t0, original(2), View{})
	mustRefuse(t, c, t0, original(3), View{}, comporta.CapacityExhausted)
	p.ReleaseAt(at(10*ms), success(10*ms))
	if g, ok := w.AnswerAt(at(20 * ms)); !ok || !g.Admitted() || g.Queued != 10*ms {
		t.Errorf("answered %v: %+v", ok, g)
	}
}

func TestNoQueueWithoutWait(t *testing.T) {
	var s State
	c := newController(t, Config{Capacity: 4}, &s)
	fill(t, c, t0, 4)
	mustRefuse(t, c, t0, original(9), View{}, comporta.CapacityExhausted)
	mustRefuse(t, c, t0, retry(9), View{}, comporta.CapacityExhausted)
	if !c.Full() {
		t.Error("not full")
	}
}

func TestFullAndLoad(t *testing.T) {
	var s State
	c := newController(t, Config{Capacity: 4, QueueWait: 100 * ms}, &s)
	observer := newController(t, Config{Mode: ModeObserve, Capacity: 4}, &s)
	fill(t, c, t0, 4)
	if c.Full() {
		t.Error("full although an original may still wait")
	}
	mustWait(t, c, t0, original(9), View{})
	if !c.Full() || observer.Full() {
		t.Error("not full, or full while nothing is refused")
	}
	if inflight, limit := c.Load(); inflight != 4 || limit != 4 {
		t.Errorf("%d of %d in flight", inflight, limit)
	}
}

func TestRefusedAtOnceWhenThePlaceComesTooLate(t *testing.T) {
	var s State
	c := newController(t, Config{Capacity: 8, QueueWait: 100 * ms}, &s)
	departures := func(from, taken time.Duration) (now time.Time) {
		for i := range 40 {
			mustAdmit(t, c, at(from+time.Duration(i)*100*ms), original(1)).ReleaseAt(at(from+time.Duration(i+1)*100*ms), success(taken))
		}
		return at(from + 5*time.Second)
	}
	now := departures(0, 5*time.Second) // 8 in flight give 1.6 departures a second
	if d := c.StatsAt(now).Drain; d < 1.59 || d > 1.61 {
		t.Fatalf("drain %v, want 1.6", d)
	}
	permits := fill(t, c, now, 8)
	mustRefuse(t, c, now, original(1), View{}, comporta.CapacityExhausted) // the first place is 625 ms away
	c = newController(t, Config{Capacity: 8, QueueWait: 630 * ms}, &s)
	mustWait(t, c, now, original(1), View{})
	mustRefuse(t, c, now, original(2), View{}, comporta.CapacityExhausted) // the second 1.25 s
	for i := range permits {
		permits[i].ReleaseAt(now, success(5*time.Second))
	}
}

// A service that takes a second is waited for longer than one that takes a
// millisecond: half as long as it takes.
func TestQueueOfASlowServiceIsLonger(t *testing.T) {
	for _, tt := range []struct{ taken, wait time.Duration }{
		{10 * ms, 100 * ms}, {200 * ms, 100 * ms}, {600 * ms, 300 * ms}, {30 * time.Second, 500 * ms},
	} {
		var s State
		c := newController(t, Config{Capacity: 80, QueueWait: 100 * ms}, &s)
		for i := range 80 { // until the average is made of them alone
			now := at(time.Duration(i) * 100 * ms)
			mustAdmit(t, c, now, original(1)).ReleaseAt(now, success(tt.taken))
		}
		now := at(time.Minute)
		fill(t, c, now, 80)
		w := mustWait(t, c, now, original(2), View{})
		if wait := w.Deadline().Sub(now); (wait - tt.wait).Abs() > ms {
			t.Errorf("where answers take %v one waits %v, want %v", tt.taken, wait, tt.wait)
		}
	}
}

func TestPatienceShortensTheWait(t *testing.T) {
	var s State
	c := newController(t, Config{Capacity: 4, QueueWait: 100 * ms}, &s)
	fill(t, c, t0, 4)
	r := original(9)
	r.Patience = 30 * ms
	w := mustWait(t, c, t0, r, View{})
	if d := w.Deadline().Sub(t0); d != 30*ms {
		t.Errorf("deadline after %v, want 30ms", d)
	}
	if _, ok := w.AnswerAt(at(29 * ms)); ok {
		t.Error("answered before the deadline")
	}
	if g, ok := w.AnswerAt(at(30 * ms)); !ok || g.Reason != comporta.CapacityExhausted {
		t.Errorf("at the deadline: %v %+v", ok, g)
	}
}

// A repeat enters on a free permit while no original waits; an early one, or a
// disobedient one, only below the line.
func TestLines(t *testing.T) {
	disobedient := retry(9)
	disobedient.Slot.Disobedient = true
	crowding := original(9)
	crowding.Slot.Crowding = true
	shared := retry(9)
	shared.Sighting.Evidence = comporta.EvidenceShared
	poll := retry(9)
	poll.Sighting.Kind = comporta.KindPoll
	early := slotted(9, comporta.SlotEarly)
	earlyShared := *shared
	earlyShared.Slot.State = comporta.SlotEarly
	for _, tt := range []struct {
		name     string
		r        *comporta.Request
		inflight int
		want     comporta.Reason
	}{
		{"retry on the last permit", retry(9), 99, comporta.ReasonNone},
		{"retry at a full house", retry(9), 100, comporta.CapacityExhausted},
		{"crowding on the last permit", crowding, 99, comporta.ReasonNone},
		{"crowding at a full house", crowding, 100, comporta.CapacityExhausted},
		{"early below the line", early, 97, comporta.ReasonNone},
		{"early at the line", early, 98, comporta.RetryDeferred},
		{"early at a full house", early, 100, comporta.CapacityExhausted},
		{"plain on the last permit", slotted(9, comporta.SlotPlain), 99, comporta.ReasonNone},
		{"redeemed on the last permit", slotted(9, comporta.SlotRedeemed), 99, comporta.ReasonNone},
		{"aged on the last permit", slotted(9, comporta.SlotAged), 99, comporta.ReasonNone},
		{"disobedient below the line", disobedient, 97, comporta.ReasonNone},
		{"disobedient at the line", disobedient, 98, comporta.RetryDeferred},
		{"shared evidence accuses nobody", shared, 99, comporta.ReasonNone},
		{"shared evidence, early", &earlyShared, 99, comporta.ReasonNone},
		{"shared evidence at a full house", shared, 100, comporta.CapacityExhausted},
		{"a poll is an original", poll, 99, comporta.ReasonNone},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var s State
			c := newController(t, Config{Capacity: 100}, &s)
			fill(t, c, t0, tt.inflight)
			g := c.AdmitAt(t0, tt.r, View{})
			if g.Reason != tt.want || g.Permit.Held() != (tt.want == comporta.ReasonNone) {
				t.Errorf("reason %v, want %v", g.Reason, tt.want)
			}
		})
	}
}

// cases/overload.md 23, policy reserve: the literal rule of the article.
func TestCase_Overload_C23_Reserve(t *testing.T) {
	var s State
	c := newController(t, Config{Policy: PolicyReserve, Capacity: 200, Reserve: 0.3, QueueWait: 100 * ms}, &s)
	var permits []Permit
	for range 140 {
		permits = append(permits, mustAdmit(t, c, t0, retry(1)))
	}
	mustRefuse(t, c, t0, retry(1), View{}, comporta.RetryDeferred)
	permits = append(permits, fill(t, c, t0, 60)...)
	mustRefuse(t, c, t0, original(1), View{}, comporta.CapacityExhausted)
	mustRefuse(t, c, t0, retry(1), View{}, comporta.CapacityExhausted)
	for _, p := range permits {
		p.ReleaseAt(at(ms), success(ms))
	}
	atRest(t, &s)
}

// cases/overload.md 23, policy priority: every permit that frees goes to an
// original until none waits.
func TestCase_Overload_C23_Priority(t *testing.T) {
	var s State
	c := newController(t, Config{Capacity: 200, QueueWait: 100 * ms}, &s)
	var retries []Permit
	for range 200 {
		retries = append(retries, mustAdmit(t, c, t0, retry(1)))
	}
	var waiters []*Waiter
	for i := range 60 {
		g := c.AdmitAt(at(ms), original(uint64(100+i)), View{})
		if g.Waiter != nil {
			waiters = append(waiters, g.Waiter)
		}
	}
	if len(waiters) != 50 { // a quarter of the limit stands, the rest is told at once
		t.Fatalf("%d wait, want 50", len(waiters))
	}
	for i, p := range retries[:50] {
		now := at(time.Duration(2+i) * ms)
		p.ReleaseAt(now, success(time.Second))
		if !served(waiters[i], now) {
			t.Fatalf("permit %d did not go to the original that waited longest", i)
		}
		if i < 49 {
			mustRefuse(t, c, now, retry(2), View{}, comporta.CapacityExhausted)
		}
	}
	retries[50].ReleaseAt(at(60*ms), success(time.Second))
	mustAdmit(t, c, at(60*ms), retry(2))
}

// cases/overload.md 24: the reserve lends itself while it stands idle.
func TestCase_Overload_C24_IdleReserve(t *testing.T) {
	var s State
	c := newController(t, Config{Policy: PolicyReserve, Capacity: 100, Reserve: 0.3}, &s)
	var held []Permit
	repeats := func(now time.Time) (n int) {
		for {
			g := c.AdmitAt(now, retry(1), View{})
			held = append(held, g.Permit)
			if !g.Admitted() {
				if g.Reason != comporta.RetryDeferred {
					t.Fatalf("reason %v", g.Reason)
				}
				return n
			}
			n++
		}
	}
	if n := repeats(t0); n != 70 {
		t.Fatalf("%d repeats entered at once, want 70", n)
	}
	if n := repeats(at(4 * time.Second)); n != 0 {
		t.Fatalf("%d more after 4 s, want none", n)
	}
	if n := repeats(at(6 * time.Second)); n != 25 {
		t.Fatalf("%d more after 6 s without an original, want 25", n)
	}
	now := at(7 * time.Second)
	permits := fill(t, c, now, 5)
	permits[0].ReleaseAt(now, success(ms))
	permits[0] = mustAdmit(t, c, now, original(1))
	mustRefuse(t, c, now, original(1), View{}, comporta.CapacityExhausted)
	for _, p := range permits {
		p.ReleaseAt(now, success(ms))
	}
	for _, p := range held[:30] { // 65 stay
		p.ReleaseAt(now, success(ms))
	}
	if n := repeats(at(8 * time.Second)); n != 5 {
		t.Fatalf("%d repeats after an original was refused, want 5", n)
	}
	if n := repeats(at(11 * time.Second)); n != 0 {
		t.Fatalf("%d repeats 4 s after the last original, want none", n)
	}
	if g := c.AdmitAt(at(-time.Hour), retry(1), View{}); g.Admitted() {
		t.Fatal("a clock that steps back lifts the reserve")
	}
}

// While the verdict is attack, the believed go before originals of the unknown.
func TestAttackPutsTheBelievedFirst(t *testing.T) {
	var s State
	c := newController(t, Config{Capacity: 16, QueueWait: 100 * ms}, &s)
	permits := fill(t, c, t0, 16)
	attack := View{Attack: true}
	var unknown []*Waiter
	for i := range 4 {
		unknown = append(unknown, mustWait(t, c, t0, original(uint64(1+i)), attack))
	}
	again := mustWait(t, c, t0, believed(retry(51)), attack)
	known := mustWait(t, c, t0, believed(original(50)), attack) // full: the last of the unknown yields
	if g, ok := unknown[3].AnswerAt(t0); !ok || g.Reason != comporta.CapacityExhausted {
		t.Fatalf("the last of the unknown: %v %+v", ok, g)
	}
	disobedient := believed(retry(52))
	disobedient.Slot.Disobedient = true
	mustRefuse(t, c, t0, disobedient, attack, comporta.CapacityExhausted)
	mustRefuse(t, c, t0, retry(53), attack, comporta.CapacityExhausted)
	for i, w := range []*Waiter{known, again, unknown[0], unknown[1], unknown[2]} {
		permits[i].ReleaseAt(at(ms), success(ms))
		if !served(w, at(ms)) {
			t.Fatalf("permit %d went to another", i)
		}
	}
}

// cases/overload.md 21: within a route the sheddable yield first, and no other
// route pays for it.
func TestCase_Overload_C21_SheddableYieldsWithinItsRoute(t *testing.T) {
	var s State
	c := newController(t, Config{Capacity: 100, QueueWait: 200 * ms, Routes: []Route{
		{},
		{Name: "foo", Share: 0.5},
		{Name: "foo", Share: 0.5, Sheddable: true},
		{Name: "bar"},
		{Name: "bar", Sheddable: true},
	}}, &s)
	type busy struct {
		p    Permit
		ends time.Duration
	}
	var running []busy
	var waiting []*Waiter
	var asked, lost [5]int
	// foo takes 1 s a call and is asked 60 times a second in all: its 50 permits
	// are too few, but enough for its 30 critical ones. bar takes 10 ms.
	for tick := range 3000 {
		d := time.Duration(tick) * ms
		now := at(d)
		rest := running[:0]
		for _, b := range running {
			if b.ends <= d {
				b.p.ReleaseAt(now, success(ms))
			} else {
				rest = append(rest, b)
			}
		}
		running = rest
		stay := waiting[:0]
		for _, w := range waiting {
			g, ok := w.AnswerAt(now)
			switch {
			case !ok:
				stay = append(stay, w)
			case g.Admitted():
				running = append(running, busy{g.Permit, d + time.Second})
			default:
				lost[1]++
			}
		}
		waiting = stay
		ask := func(route int, takes time.Duration) {
			r := original(uint64(tick))
			r.Route = route
			asked[route]++
			switch g := c.AdmitAt(now, r, View{}); {
			case g.Waiter != nil:
				waiting = append(waiting, g.Waiter)
			case g.Admitted():
				running = append(running, busy{g.Permit, d + takes})
			default:
				lost[route]++
			}
		}
		if tick%33 == 0 {
			ask(1, time.Second)
		}
		if tick%33 == 16 {
			ask(2, time.Second)
		}
		ask(3, 10*ms)
		ask(4, 10*ms)
	}
	if lost[2] == 0 {
		t.Error("nothing was shed: the case proves nothing")
	}
	if lost[1]+lost[3]+lost[4] != 0 {
		t.Errorf("lost %v of %v (routes: other, foo, foo sheddable, bar, bar sheddable)", lost, asked)
	}
}

func TestShareBoundsARoute(t *testing.T) {
	var s State
	c := newController(t, Config{Capacity: 10, QueueWait: 100 * ms, Routes: []Route{{}, {Name: "slow", Share: 0.25}}}, &s)
	slow := func(client uint64) *comporta.Request {
		r := original(client)
		r.Route = 1
		return r
	}
	var permits []Permit
	for range 3 { // ceil(0.25 × 10)
		permits = append(permits, mustAdmit(t, c, t0, slow(1)))
	}
	w := mustWait(t, c, t0, slow(2), View{})
	again := retry(3)
	again.Route = 1
	mustRefuse(t, c, t0, again, View{}, comporta.CapacityExhausted) // no permit of its route is free, whatever it is
	mustAdmit(t, c, t0, original(4))                                // who waits for a route is in nobody's way
	mustAdmit(t, c, t0, retry(4))
	permits[0].ReleaseAt(at(ms), success(ms))
	if !served(w, at(ms)) {
		t.Error("the permit of the route was not handed over")
	}
	w = mustWait(t, c, at(ms), slow(2), View{})
	if g, ok := w.AnswerAt(at(200 * ms)); !ok || g.Reason != comporta.CapacityExhausted {
		t.Errorf("answered %v: %+v", ok, g)
	}
	if st := c.StatsAt(at(200 * ms)); st.Bound {
		t.Error("a full route counts as a full house")
	}
}

// Sheddable requests leave the last 8 % of their route to the others, and do not wait.
func TestSheddableLine(t *testing.T) {
	var s State
	c := newController(t, Config{Capacity: 100, QueueWait: 100 * ms, Routes: []Route{
		{}, {Name: "foo", Share: 0.5, Sheddable: true}, {Name: "foo", Share: 0.5},
	}}, &s)
	shed, critical := original(1), original(2)
	shed.Route, critical.Route = 1, 2
	for range 46 { // below 92 % of 50
		mustAdmit(t, c, t0, shed)
	}
	mustRefuse(t, c, t0, shed, View{}, comporta.CapacityExhausted)
	for range 4 {
		mustAdmit(t, c, t0, critical)
	}
	mustWait(t, c, t0, critical, View{})
	mustRefuse(t, c, t0, shed, View{}, comporta.CapacityExhausted)
}

func TestObserveNeverRefuses(t *testing.T) {
	var s State
	l := new(learner)
	l.limit.Store(4)
	c := newController(t, Config{Mode: ModeObserve, Learner: l, QueueWait: 100 * ms, Streams: 1}, &s)
	var permits []Permit
	var said []comporta.Reason
	for range 7 {
		g := c.AdmitAt(t0, original(1), View{})
		if !g.Admitted() || !g.Permit.Held() {
			t.Fatal("refused")
		}
		permits, said = append(permits, g.Permit), append(said, g.WouldRefuse)
	}
	// Four have permits, the fifth would wait, the rest find the queue of one full.
	for i, want := range []comporta.Reason{0, 0, 0, 0, 0, comporta.CapacityExhausted, comporta.CapacityExhausted} {
		if said[i] != want {
			t.Errorf("request %d would be refused with %v, want %v", i, said[i], want)
		}
	}
	g := c.AdmitAt(t0, retry(1), View{})
	if g.WouldRefuse != comporta.CapacityExhausted || !g.Permit.Held() {
		t.Errorf("a retry: %+v", g)
	}
	permits = append(permits, g.Permit)
	if st := c.StatsAt(t0); st.InFlight != 8 || st.Waiting != 0 || !st.Bound {
		t.Errorf("%+v", st)
	}
	// Enforced from now on: nothing enters before the overhang is gone.
	c = newController(t, Config{Learner: l}, &s)
	mustRefuse(t, c, t0, original(1), View{}, comporta.CapacityExhausted)
	for _, p := range permits[:5] {
		p.ReleaseAt(at(ms), success(ms))
	}
	mustAdmit(t, c, at(ms), original(1)).ReleaseAt(at(ms), success(ms))
	for _, p := range permits[5:] {
		if !p.StreamAt(at(ms)) {
			t.Error("observe mode ended a stream")
		}
		p.ReleaseAt(at(ms), success(ms))
	}
	atRest(t, &s)
}

// Old and new controllers count in the same words: a reload under load neither
// loses nor doubles a permit.
func TestReloadKeepsCounts(t *testing.T) {
	var s State
	routes := []Route{{}, {Name: "a", Share: 0.5}}
	old := newController(t, Config{Capacity: 8, QueueWait: 100 * ms, Routes: routes}, &s)
	r := original(1)
	r.Route = 1
	var permits []Permit
	for range 4 {
		permits = append(permits, mustAdmit(t, old, t0, r))
	}
	permits = append(permits, fill(t, old, t0, 4)...)
	// The route has moved within the list, and the house is half as large.
	now := newController(t, Config{Capacity: 4, QueueWait: 100 * ms, Routes: []Route{{}, {Name: "new"}, {Name: "a", Share: 0.5}}}, &s)
	mustRefuse(t, now, t0, retry(2), View{}, comporta.CapacityExhausted)
	for i, p := range permits[:5] {
		if g := now.AdmitAt(at(ms), retry(2), View{}); g.Admitted() {
			t.Fatalf("admitted with %d in flight and a limit of 4", 8-i)
		}
		p.ReleaseAt(at(ms), success(ms))
	}
	r.Route = 2
	mustAdmit(t, now, at(ms), r).ReleaseAt(at(ms), success(ms))
	for _, p := range permits[5:] {
		p.ReleaseAt(at(ms), success(ms))
	}
	atRest(t, &s)
}

func TestRouteIndexBeyondTheListIsOther(t *testing.T) {
	var s State
	c := newController(t, Config{Capacity: 1}, &s)
	for _, i := range []int{-1, 1, 1 << 40} {
		r := original(1)
		r.Route = i
		mustAdmit(t, c, t0, r).ReleaseAt(t0, success(ms))
	}
	atRest(t, &s)
}

func TestLearnerHearsOnlyWhatTheServiceSaid(t *testing.T) {
	var s State
	l := new(learner)
	l.limit.Store(2)
	c := newController(t, Config{Learner: l}, &s)
	for _, tt := range []struct {
		o                    comporta.Outcome
		done, drops, ignored int64
	}{
		{success(ms), 1, 0, 0},
		{comporta.Outcome{Status: 304, Result: comporta.ResultSuccess, Latency: ms}, 1, 0, 0},
		{comporta.Outcome{Result: comporta.ResultTimeout, Latency: ms}, 0, 1, 0},
		{comporta.Outcome{Status: 504, Result: comporta.ResultFailed, Latency: ms}, 0, 1, 0},
		{comporta.Outcome{Result: comporta.ResultUnreachable}, 0, 1, 0},
		{comporta.Outcome{Status: 500, Result: comporta.ResultFailed, Latency: ms}, 0, 0, 1},
		{comporta.Outcome{Status: 404, Result: comporta.ResultDeterministic, Latency: ms}, 0, 0, 1},
		{comporta.Outcome{Status: 503, Result: comporta.ResultRefused, Latency: 50 * time.Microsecond}, 0, 0, 1},
		{comporta.Outcome{Result: comporta.ResultAbandoned, Latency: ms}, 0, 0, 1},
		{comporta.Outcome{Status: 200, Result: comporta.ResultSuccess, Latency: time.Minute, Stream: true}, 0, 0, 1},
		{comporta.Outcome{Status: 200, Result: comporta.ResultSuccess}, 0, 0, 1}, // no latency, no sample
		{comporta.Outcome{}, 0, 0, 1},
	} {
		l.done.Store(0)
		l.drops.Store(0)
		l.ignored.Store(0)
		mustAdmit(t, c, t0, original(1)).ReleaseAt(at(ms), tt.o)
		if l.done.Load() != tt.done || l.drops.Load() != tt.drops || l.ignored.Load() != tt.ignored {
			t.Errorf("%+v: %d samples, %d drops, %d ignored", tt.o, l.done.Load(), l.drops.Load(), l.ignored.Load())
		}
	}
	fill(t, c, t0, 2)
	mustRefuse(t, c, t0, original(1), View{}, comporta.CapacityExhausted)
	if l.refused.Load() != 1 {
		t.Errorf("%d refusals told, want 1", l.refused.Load())
	}
	if st := c.StatsAt(at(2 * time.Second)); !st.Bound {
		t.Error("a full house is not bound")
	}
}

// A withheld permit and a route that has its share are no want of the limit: told
// of them, the limit would grow.
func TestLearnerDoesNotHearOfWithheldPermits(t *testing.T) {
	var s State
	l := new(learner)
	l.limit.Store(100)
	c := newController(t, Config{Learner: l, Routes: []Route{{}, {Share: 0.02}}}, &s)
	permits := fill(t, c, t0, 98)
	mustRefuse(t, c, t0, slotted(1, comporta.SlotEarly), View{}, comporta.RetryDeferred)
	for i := range permits {
		permits[i].ReleaseAt(t0, success(ms))
	}
	narrow := original(2)
	narrow.Route = 1
	for range 2 {
		mustAdmit(t, c, t0, narrow)
	}
	mustRefuse(t, c, t0, narrow, View{}, comporta.CapacityExhausted)
	if n := l.refused.Load(); n != 0 {
		t.Errorf("%d refusals told, want none", n)
	}
}

func TestCeilingBoundsTheLearner(t *testing.T) {
	l := new(learner)
	l.limit.Store(500)
	c := newController(t, Config{Learner: l, Ceiling: 64}, new(State))
	if c.Limit() != 64 {
		t.Errorf("limit %d", c.Limit())
	}
	l.limit.Store(-3)
	if c.Limit() != 0 {
		t.Errorf("limit %d", c.Limit())
	}
}

// A limit that rises while requests wait lets them in with the next thing that happens.
func TestRaisedLimitServesWaiters(t *testing.T) {
	var s State
	l := new(learner)
	l.limit.Store(8)
	c := newController(t, Config{Learner: l, QueueWait: 100 * ms}, &s)
	permits := fill(t, c, t0, 8)
	w1, w2 := mustWait(t, c, t0, original(1), View{}), mustWait(t, c, t0, original(2), View{})
	l.limit.Store(12)
	if g := c.AdmitAt(at(ms), original(3), View{}); !g.Admitted() || !served(w1, at(ms)) || !served(w2, at(ms)) {
		t.Error("they wait although the limit rose")
	}
	l.limit.Store(3) // below what is in flight: nothing enters, nothing goes negative
	for range 8 {
		permits[0].ReleaseAt(at(2*ms), success(2*ms))
		permits = permits[1:]
		if g := c.AdmitAt(at(2*ms), retry(4), View{}); g.Admitted() {
			t.Fatalf("admitted with %+v", c.StatsAt(at(2*ms)))
		}
	}
}

func TestNoAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("allocations cannot be counted under the race detector")
	}
	var s State
	c := newController(t, Config{Capacity: 10, QueueWait: 100 * ms, Routes: []Route{{}, {Share: 0.5, Sheddable: true}}}, &s)
	r, again := original(1), slotted(1, comporta.SlotEarly)
	r2 := original(2)
	r2.Route = 1
	n := testing.AllocsPerRun(1000, func() {
		for _, r := range []*comporta.Request{r, again, r2} {
			g := c.AdmitAt(t0, r, View{})
			g.Permit.ReleaseAt(t0, success(ms))
		}
	})
	if n != 0 {
		t.Errorf("admit and release: %v allocations", n)
	}
	fill(t, c, t0, 10)
	if n := testing.AllocsPerRun(1000, func() { c.AdmitAt(t0, again, View{}) }); n != 0 {
		t.Errorf("refusal: %v allocations", n)
	}
	mustWait(t, c, t0, original(3), View{})
	mustWait(t, c, t0, original(4), View{})
	if n := testing.AllocsPerRun(1000, func() { c.AdmitAt(t0, r, View{}) }); n != 0 {
		t.Errorf("refusal of an original at a full queue: %v allocations", n)
	}
}
