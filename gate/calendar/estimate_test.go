package calendar

import (
	"math"
	"testing"
	"time"

	"github.com/comporta/comporta"
)

var answered = comporta.Outcome{Status: 200, Result: comporta.ResultSuccess, Latency: 100 * time.Millisecond}

// second lets n originals in and answers them, spread over one second. In a full
// house each of them took what n answers a second leave for one.
func (h *house) second(n int, o comporta.Outcome, load Load) {
	if load.Inflight >= load.Limit && !o.Stream {
		o.Latency = time.Second * time.Duration(load.Limit) / time.Duration(n)
	}
	step := time.Second / time.Duration(n+1)
	for i := range n {
		h.later(step)
		r := ask(client(i, comporta.ClassProven), 1)
		h.LookAt(h.now, r)
		h.AdmittedAt(h.now, r)
		h.DoneAt(h.now, o, load)
	}
	h.now = h.now.Truncate(time.Second).Add(time.Second)
}

func (h *house) wantDrain(want float64) {
	h.t.Helper()
	h.state.rollAt(h.now)
	if got := h.state.Estimates().Drain; math.Abs(got-want) > 0.02*want {
		h.t.Errorf("drain %.1f/s after %v, want %.1f", got, h.now.Sub(start), want)
	}
}

func TestDrain(t *testing.T) {
	full, calm := Load{Inflight: 40, Limit: 40}, Load{Inflight: 10, Limit: 40}
	t.Run("before anything is known, the limit in a second", func(t *testing.T) {
		h := newHouse(t, Config{})
		h.refuse(ask(client(1, comporta.ClassProven), 1)) // at 100 of 100
		h.wantDrain(100)
	})
	t.Run("a calm second says nothing", func(t *testing.T) {
		h := newHouse(t, Config{})
		for range 5 {
			h.second(20, answered, calm)
		}
		h.wantDrain(40)
	})
	t.Run("slow answers lower what the limit lets through", func(t *testing.T) {
		h := newHouse(t, Config{})
		slow := answered
		slow.Latency = 4 * time.Second
		for range 5 {
			h.second(5, slow, calm)
		}
		h.wantDrain(10)
	})
	t.Run("a full second is a sample, and the best of the last ones counts", func(t *testing.T) {
		h := newHouse(t, Config{})
		for _, n := range []int{200, 300, 250, 250} {
			h.second(n, answered, full)
		}
		h.wantDrain(300)
		for range muWindow {
			h.second(150, answered, full)
		}
		h.wantDrain(150)
	})
	t.Run("failures are no drain", func(t *testing.T) {
		h := newHouse(t, Config{})
		for range 5 {
			h.second(200, answered, full)
		}
		for range 3 * muWindow {
			h.second(2000, comporta.Outcome{Status: 500, Result: comporta.ResultFailed}, full)
		}
		h.wantDrain(200)
		if !h.state.Estimates().Outage {
			t.Error("no outage while nothing succeeds")
		}
		for range 3 {
			h.second(100, answered, full)
		}
		if h.state.Estimates().Outage {
			t.Error("outage while everything succeeds")
		}
	})
	t.Run("streams have no latency", func(t *testing.T) {
		h := newHouse(t, Config{})
		for range 5 {
			h.second(5, comporta.Outcome{Status: 200, Result: comporta.ResultSuccess, Latency: time.Hour, Stream: true}, calm)
		}
		h.wantDrain(40)
	})
}

func TestSpare(t *testing.T) {
	full := Load{Inflight: 40, Limit: 40}
	h := newHouse(t, Config{})
	for range 120 {
		h.second(60, answered, full)
		for i := range 20 { // believed originals that found no room want to be served, too
			h.refuse(ask(client(1000+i+int(h.now.Unix())*100, comporta.ClassProven), 1))
		}
	}
	e := h.state.Estimates()
	if math.Abs(e.Fresh-80) > 2 || math.Abs(e.Drain-60) > 0.1 {
		t.Errorf("fresh %.1f/s, drain %.1f/s, want 80 and 60", e.Fresh, e.Drain)
	}
	if want := 0.05 * 60; math.Abs(e.Spare-want) > 0.02 {
		t.Errorf("spare %.1f/s, want the least, %.1f", e.Spare, want)
	}
	for range 120 {
		h.second(60, answered, full)
		for i := range 20 {
			h.refuse(ask(client(1000+i+int(h.now.Unix())*100, comporta.ClassAnonymous), 1))
		}
	}
	if e := h.state.Estimates(); math.Abs(e.Fresh-60) > 2 {
		t.Errorf("fresh %.1f/s: a flood of anonymous originals pushes the returns away", e.Fresh)
	}
}

// In an outage the schedule goes on at the last healthy rate, and refused slots
// say nothing of it.
func TestOutage_KeepsHealthyRate(t *testing.T) {
	full := Load{Inflight: 40, Limit: 40}
	h := newHouse(t, Config{})
	for range 30 {
		h.second(60, answered, full)
	}
	h.state.rollAt(h.now)
	before := h.state.Estimates()
	var waiting []*comporta.Request
	for i := range 300 { // breaker open: nothing is asked of the service
		r := ask(client(5000+i, comporta.ClassAnonymous), 1)
		waiting = append(waiting, r)
		for _, r := range waiting[max(0, i-50):] {
			h.LookAt(h.now, r)
			h.BookAt(h.now, r, comporta.UpstreamUnavailable, Load{Inflight: 0, Limit: 40})
		}
		h.later(200 * time.Millisecond)
	}
	after := h.state.Estimates()
	if !after.Outage || after.Drain != before.Drain || after.Spare > before.Spare+0.1 || after.Factor != before.Factor {
		t.Errorf("before the outage %+v, in it %+v", before, after)
	}
}

func TestFeedback(t *testing.T) {
	h := newHouse(t, Config{})
	h.rate(100)
	factor := func() float64 { return h.state.Estimates().Factor }
	pass := func() { h.later(time.Second); h.state.rollAt(h.now) }
	redeem := func(in, out int) {
		h.state.redeemedIn.Add(int64(in))
		h.state.redeemedOut.Add(int64(out))
		h.DoneAt(h.now, answered, h.load) // a full house
		pass()
	}
	for i := range 50 {
		h.refuse(ask(client(i, comporta.ClassProven), 1))
	}
	if redeem(95, 5); factor() != 1 {
		t.Errorf("factor %v after 5 %% refused", factor())
	}
	if redeem(94, 6); factor() != 1.25 {
		t.Errorf("factor %v after 6 %% refused", factor())
	}
	shed := ask(client(1, comporta.ClassProven), 1)
	shed.Slot.State = comporta.SlotRedeemed
	for range 10 {
		h.BookAt(h.now, shed, comporta.ShedByOperator, h.load)
	}
	if redeem(95, 5); factor() > 1.25 {
		t.Errorf("factor %v: what an operator sheds made places dearer", factor())
	}
	for range 20 {
		redeem(0, 20)
	}
	if factor() != dearest {
		t.Errorf("factor %v, want at most %v", factor(), dearest)
	}
	// An idle house while others wait: the places are too dear.
	for i := range 50 {
		h.refuse(ask(client(100+i, comporta.ClassProven), 1))
	}
	pass()
	for range 40 {
		h.state.words[believed].next.Store(h.now.Add(time.Minute).UnixNano())
		h.BookAt(h.now, ask(client(int(h.now.Unix()), comporta.ClassProven), 1), comporta.ShedByOperator, Load{Inflight: 1, Limit: 100})
		pass()
	}
	if factor() != 0.25 {
		t.Errorf("factor %v, want at least 1/4", factor())
	}
	// Nobody waits: the next incident begins without prejudice.
	h.later(20 * time.Minute)
	for range 30 {
		pass()
	}
	if got := factor(); math.Abs(got-1) > 0.01 {
		t.Errorf("factor %v after a calm time", got)
	}
}

// Those who never return make the next ones come in their stead.
func TestShown_Overbooks(t *testing.T) {
	for _, class := range []comporta.Class{comporta.ClassProven, comporta.ClassAnonymous} {
		sd, most := believed, overbookMax[believed]
		if class == comporta.ClassAnonymous {
			sd, most = others, overbookMax[others]
		}
		h := newHouse(t, Config{})
		h.rate(10)
		id := 0
		for range 120 {
			for range 30 {
				id++
				h.refuse(ask(client(id, class), 1))
			}
			h.later(time.Second)
		}
		h.state.mu.factor = 1
		h.state.publish(h.now)
		rate := 1e9 / float64(h.state.cost[sd].Load()) / h.state.spare.load()
		if rate < most*0.9 || rate > most*1.01 {
			t.Errorf("%v: overbooked %.1f times, want about %.0f", class, rate, most)
		}
	}
}

func TestAverage(t *testing.T) {
	var a average
	if a.value(7) != 7 {
		t.Error("an empty average knows something")
	}
	a.add(10, 0.2, 0.8)
	if a.value(0) != 10 {
		t.Errorf("%v after one value of 10: drawn to 0", a.value(0))
	}
	a.add(20, 0.2, 0.8)
	if v := a.value(0); v < 15 || v > 16 {
		t.Errorf("%v", v)
	}
}

// What the service refuses itself is counted once: the newcomer when it entered,
// the slot as refused.
func TestBookAnsweredAt_CountsOnce(t *testing.T) {
	h := newHouse(t, Config{})
	h.rate(10)
	fresh := ask(client(1, comporta.ClassProven), 1)
	h.LookAt(h.now, fresh)
	h.AdmittedAt(h.now, fresh)
	b := h.BookAnsweredAt(h.now, fresh, h.load, 3*time.Second)
	if n := h.state.arrivals.Load(); n != 1 || b.Due.Sub(h.now) < 3*time.Second {
		t.Errorf("%d arrivals of one request, wait %v", n, b.Due.Sub(h.now))
	}
	h.later(b.Due.Sub(h.now))
	h.want(fresh, comporta.SlotRedeemed)
	h.state.rollAt(h.now)
	h.state.forget()
	h.AdmittedAt(h.now, fresh)
	again := h.BookAnsweredAt(h.now, fresh, h.load, 0)
	if in, out := h.state.redeemedIn.Load(), h.state.redeemedOut.Load(); in != 0 || out != 1 || !again.Fresh {
		t.Errorf("one redeemed slot: %d served, %d refused, %+v", in, out, again)
	}
}
