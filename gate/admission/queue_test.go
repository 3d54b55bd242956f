package admission

import (
	"slices"
	"testing"
	"time"

	"github.com/comporta/comporta"
)

// drain releases one permit at a time and returns the clients in the order in
// which they were served, each giving its permit back at once.
func drain(t *testing.T, c *Controller, first Permit, waiters map[*Waiter]uint64) (order []uint64) {
	t.Helper()
	p := first
	for now := at(ms); p.Held(); now = now.Add(10 * time.Microsecond) {
		p.ReleaseAt(now, success(time.Microsecond))
		p = Permit{}
		for w, client := range waiters {
			if served(w, now) {
				order = append(order, client)
				p = got(w, now)
				delete(waiters, w)
				break
			}
		}
	}
	return order
}

// Clients of one rank take turns, whatever they have brought along.
func TestClientsTakeTurns(t *testing.T) {
	var s State
	c := newController(t, Config{Capacity: 40, QueueWait: 100 * ms}, &s)
	permits := fill(t, c, t0, 40)
	waiters := map[*Waiter]uint64{}
	for _, client := range []uint64{1, 1, 1, 1, 2, 2, 3} {
		waiters[mustWait(t, c, t0, original(client), View{})] = client
	}
	want := []uint64{1, 2, 3, 1, 2, 1, 1}
	order := drain(t, c, permits[0], waiters)
	if len(order) != len(want) {
		t.Fatalf("served %v, want %v", order, want)
	}
	for i := range want {
		if order[i] != want[i] {
			t.Fatalf("served %v, want %v", order, want)
		}
	}
}

// A client that always has one request waiting gets half against one that has
// many, not everything: its share is remembered while it does not wait.
func TestShareIsRememberedBetweenWaits(t *testing.T) {
	var s State
	c := newController(t, Config{Capacity: 40, QueueWait: time.Hour}, &s)
	permits := fill(t, c, t0, 40)
	var many []*Waiter
	for range 8 {
		many = append(many, mustWait(t, c, t0, original(1), View{}))
	}
	one := mustWait(t, c, t0, original(2), View{})
	turns := map[string]int{}
	p := permits[0]
	for range 8 {
		p.ReleaseAt(t0, success(time.Microsecond))
		if served(one, t0) {
			turns["one"]++
			p = got(one, t0)
			one = mustWait(t, c, t0, original(2), View{})
			continue
		}
		for i, w := range many {
			if served(w, t0) {
				turns["many"]++
				p = got(w, t0)
				many[i] = mustWait(t, c, t0, original(1), View{})
				break
			}
		}
		if !p.Held() {
			t.Fatal("nobody was served")
		}
	}
	if turns["one"] != 4 || turns["many"] != 4 {
		t.Errorf("turns %v, want 4 each", turns)
	}
}

// Behind one address sit many people. While strangers who ask once keep the queue
// filled, whoever asks a second time from there waits for a turn of those who wait,
// and not for all who are still to come.
func TestAddressIsNotOvertakenByStrangersForEver(t *testing.T) {
	var s State
	c := newController(t, Config{Capacity: 40, QueueWait: time.Hour}, &s)
	permits := fill(t, c, t0, 40)
	const address, standing = 7, 6
	asked := map[*Waiter]int{}
	var waiting []*Waiter
	ask := func(step int, client uint64) {
		w := mustWait(t, c, at(time.Duration(step)*ms), original(client), View{})
		asked[w] = step
		waiting = append(waiting, w)
	}
	for i := range standing {
		ask(0, uint64(2000+i))
	}
	for step := 1; step <= 400; step++ {
		client := uint64(3000 + step)
		if step%10 == 0 {
			client = address
		}
		ask(step, client)
		now := at(time.Duration(step) * ms)
		permits[0].ReleaseAt(now, success(40*ms))
		permits = permits[1:]
		waiting = slices.DeleteFunc(waiting, func(w *Waiter) bool {
			if !served(w, now) {
				return false
			}
			if waited := step - asked[w]; waited > 2*standing {
				t.Errorf("client %d waited for %d permits with %d before it", w.client, waited, standing)
			}
			permits = append(permits, got(w, now))
			return true
		})
	}
}

// In a full queue a client with fewer waiters displaces the last of the client
// that has most, but nobody trades places for nothing.
func TestFullQueueDisplacesTheGreediest(t *testing.T) {
	var s State
	c := newController(t, Config{Capacity: 16, QueueWait: 100 * ms}, &s)
	fill(t, c, t0, 16)
	greedy := []*Waiter{
		mustWait(t, c, t0, original(1), View{}), mustWait(t, c, t0, original(1), View{}),
		mustWait(t, c, t0, original(1), View{}), mustWait(t, c, t0, original(1), View{}),
	}
	mustRefuse(t, c, t0, original(1), View{}, comporta.CapacityExhausted)
	mustWait(t, c, at(ms), original(2), View{})
	g, ok := greedy[3].AnswerAt(at(ms))
	if !ok || g.Reason != comporta.CapacityExhausted || g.Queued != ms {
		t.Fatalf("the last of the greediest: %v %+v", ok, g)
	}
	mustWait(t, c, at(ms), original(3), View{}) // 3 : 1 becomes 2 : 1 : 1
	if _, ok := greedy[2].AnswerAt(at(ms)); !ok {
		t.Fatal("the third of the greediest still stands")
	}
	mustRefuse(t, c, at(ms), original(2), View{}, comporta.CapacityExhausted) // 2 : 1 : 1 and 1 : 2 : 1 are alike
	mustWait(t, c, at(ms), original(4), View{})
	for client := range uint64(5) { // one each: nobody is worse off than anybody
		mustRefuse(t, c, at(ms), original(client), View{}, comporta.CapacityExhausted)
	}
}

// Repeats at their instant are owed one permit in twenty while originals wait.
func TestOwedShare(t *testing.T) {
	var s State
	c := newController(t, Config{Capacity: 400, QueueWait: time.Hour}, &s)
	permits := fill(t, c, t0, 400)
	for i := range 100 {
		mustWait(t, c, t0, original(uint64(10_000+i)), View{})
	}
	redeemed := mustWait(t, c, t0, slotted(1, comporta.SlotRedeemed), View{})
	aged := mustWait(t, c, t0, slotted(2, comporta.SlotAged), View{})
	for i := range 40 {
		permits[i].ReleaseAt(t0, success(time.Microsecond))
		// Nineteen originals, then the aged one, nineteen originals, then the redeemed one.
		if a, r := served(aged, t0), served(redeemed, t0); a != (i >= 19) || r != (i >= 39) {
			t.Fatalf("after %d permits: aged served %v, redeemed %v", i+1, a, r)
		}
	}
}

// The place of a repeat at its instant counts what it is owed: it must not be
// sent away for a place that is its own.
func TestPlaceCountsTheDebt(t *testing.T) {
	var s State
	c := newController(t, Config{Capacity: 400, QueueWait: time.Hour}, &s)
	fill(t, c, t0, 400)
	for i := range 30 {
		mustWait(t, c, t0, original(uint64(i)), View{})
	}
	for _, tt := range []struct{ credit, want int }{{0, 19}, {12, 7}, {19, 0}, {40, 0}} {
		s.queue.credit = tt.credit
		if n := s.queue.ahead(rankRedeemed, 99, 1); n != tt.want {
			t.Errorf("owed %d: %d ahead, want %d", tt.credit, n, tt.want)
		}
	}
	s.queue.credit = 0
	mustWait(t, c, t0, slotted(98, comporta.SlotAged), View{})
	if n := s.queue.ahead(rankRedeemed, 99, 1); n != 31 { // the debt to two comes later than the last original
		t.Errorf("%d ahead, want 31", n)
	}
	if n := s.queue.ahead(rankOriginal, 99, 1); n != 30 {
		t.Errorf("%d ahead of an original, want 30", n)
	}
}

// The same over a minute in which originals alone ask for twice what there is:
// repeats at their instant get their 5 %, and no more.
func TestOwedShareUnderOverload(t *testing.T) {
	var s State
	c := newController(t, Config{Capacity: 60, QueueWait: 100 * ms}, &s)
	type busy struct {
		p    Permit
		ends time.Duration
	}
	var running []busy
	waiting := map[*Waiter]string{}
	var got [2]int
	kinds := map[string]int{"original": 0, "booked": 1}
	for d := time.Duration(0); d < time.Minute; d += ms {
		now := at(d)
		for len(running) > 0 && running[0].ends <= d { // all take a second: first in, first out
			running[0].p.ReleaseAt(now, success(time.Second))
			running = running[1:]
			for w, kind := range waiting {
				if g, ok := w.AnswerAt(now); ok {
					delete(waiting, w)
					if g.Admitted() {
						running = append(running, busy{g.Permit, d + time.Second})
						got[kinds[kind]]++
					}
				}
			}
		}
		ask := func(r *comporta.Request, kind string) {
			switch g := c.AdmitAt(now, r, View{}); {
			case g.Waiter != nil:
				waiting[g.Waiter] = kind
			case g.Admitted():
				running = append(running, busy{g.Permit, d + time.Second})
				got[kinds[kind]]++
			}
		}
		if d%(8*ms) == 0 {
			ask(original(uint64(d)), "original")
		}
		if d%(100*ms) == 50*ms {
			ask(slotted(uint64(d), comporta.SlotRedeemed), "booked")
		}
	}
	// 6 % leaves room for the start, when nobody waits yet.
	if share := float64(got[1]) / float64(got[0]+got[1]); share < 0.045 || share > 0.06 || got[0]+got[1] < 59*60 {
		t.Errorf("%d originals and %d repeats at their instant: %.1f %%", got[0], got[1], 100*share)
	}
}

// Repeats at their instant have a small line of their own; it takes no place
// from originals.
func TestRepeatsHaveTheirOwnLine(t *testing.T) {
	var s State
	c := newController(t, Config{Capacity: 32, QueueWait: 100 * ms}, &s)
	permits := fill(t, c, t0, 32)
	redeemed := mustWait(t, c, t0, slotted(1, comporta.SlotRedeemed), View{})
	mustWait(t, c, t0, slotted(2, comporta.SlotRedeemed), View{})
	mustRefuse(t, c, t0, slotted(3, comporta.SlotRedeemed), View{}, comporta.CapacityExhausted)
	aged := mustWait(t, c, t0, slotted(4, comporta.SlotAged), View{}) // outranks the last of the redeemed
	for i := range 8 {
		mustWait(t, c, t0, original(uint64(10+i)), View{})
	}
	mustRefuse(t, c, t0, original(30), View{}, comporta.CapacityExhausted)
	for _, p := range permits[:8] {
		p.ReleaseAt(at(ms), success(10*time.Microsecond))
	}
	if served(aged, at(ms)) {
		t.Error("an aged repeat went before originals")
	}
	permits[8].ReleaseAt(at(ms), success(10*time.Microsecond))
	permits[9].ReleaseAt(at(ms), success(10*time.Microsecond))
	if !served(aged, at(ms)) || !served(redeemed, at(ms)) {
		t.Error("repeats at their instant wait while permits are free")
	}
}

func TestRankOf(t *testing.T) {
	disobedient := retry(1)
	disobedient.Slot.Disobedient = true
	restored := slotted(1, comporta.SlotRedeemed)
	restored.Slot.Disobedient = true
	crowding := original(1)
	crowding.Slot.Crowding = true
	unaccused := slotted(1, comporta.SlotEarly)
	unaccused.Sighting.Evidence = comporta.EvidenceShared
	proven := believed(original(1))
	badProven := believed(original(1))
	badProven.Slot.Disobedient = true
	for _, tt := range []struct {
		name             string
		r                *comporta.Request
		normal, attacked rank
	}{
		{"original", original(1), rankOriginal, rankOriginal},
		{"unaccused", unaccused, rankOriginal, rankOriginal},
		{"aged", slotted(1, comporta.SlotAged), rankAged, rankAged},
		{"redeemed", slotted(1, comporta.SlotRedeemed), rankRedeemed, rankRedeemed},
		{"plain slot", slotted(1, comporta.SlotPlain), rankRetry, rankRetry},
		{"early", slotted(1, comporta.SlotEarly), rankRetry, rankRetry},
		{"retry", retry(1), rankRetry, rankRetry},
		{"crowding", crowding, rankRetry, rankRetry},
		{"disobedient", disobedient, rankDisobedient, rankDisobedient},
		{"disobedient at its instant", restored, rankRedeemed, rankRedeemed},
		{"proven", proven, rankOriginal, rankBelieved},
		{"proven, booked", believed(slotted(1, comporta.SlotAged)), rankAged, rankBelievedBooked},
		{"proven, retry", believed(retry(1)), rankRetry, rankBelievedRetry},
		{"proven, disobedient", badProven, rankOriginal, rankOriginal},
	} {
		if n, a := rankOf(tt.r, false), rankOf(tt.r, true); n != tt.normal || a != tt.attacked {
			t.Errorf("%s: ranks %d and %d in an attack, want %d and %d", tt.name, n, a, tt.normal, tt.attacked)
		}
	}
}

func TestMeter(t *testing.T) {
	var m meter
	now := t0.UnixNano()
	if m.rate() != 0 || m.drain(100) != 0 {
		t.Error("an unused meter measures something")
	}
	for range 500 { // 100 departures a second, 50 ms each
		now += int64(10 * ms)
		m.departAt(now, 1, 50*ms)
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if got < 0.97*want || got > 1.03*want {
			t.Errorf("%s %v, want about %v", what, got, want)
		}
	}
	near("rate", m.rate(), 100)
	near("drain of 20", m.drain(20), 400)
	for range 500 { // heavier and slower: the drain falls, whatever the rate
		now += int64(10 * ms)
		m.departAt(now, 4, 100*ms)
	}
	near("drain of 20", m.drain(20), 50)
	now -= int64(time.Hour) // the clock steps back
	for range 1000 {
		now += int64(10 * ms)
		m.departAt(now, 1, 50*ms)
	}
	near("rate", m.rate(), 100)
	near("drain of 20", m.drain(20), 400)
	m.lookAt(now + int64(20*time.Second))
	if m.rate() > 1 {
		t.Errorf("rate %v after 20 s of silence", m.rate())
	}
	for range 1_000_000 { // a clock that stands still, and nonsense latencies
		m.departAt(now, maxWeight, time.Duration(1<<62))
	}
	if d := m.drain(1); d <= 0 {
		t.Errorf("drain %v", d)
	}
}
