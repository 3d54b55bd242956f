package calendar

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/comporta/comporta"
)

// perSecond counts instants by the second.
type perSecond map[int64]int

func (p perSecond) add(due time.Time) { p[due.Unix()]++ }

func (p perSecond) most() (n int) {
	for _, k := range p {
		n = max(n, k)
	}
	return n
}

// cases/overload.md 29: 1,000 clients refused in one second return spread out, no
// second above 1.3 times the free capacity, and who asks again hears the same.
func TestCase_Overload_D29_NoConstantRetryAfter(t *testing.T) {
	for _, class := range []comporta.Class{comporta.ClassAnonymous, comporta.ClassProven} {
		t.Run(class.String(), func(t *testing.T) {
			h := newHouse(t, Config{})
			h.rate(50)
			free := h.state.spare.load()
			if free != 47.5 {
				t.Fatalf("free capacity %v", free)
			}
			histogram := perSecond{}
			first := make([]time.Time, 1000)
			for i := range first {
				h.later(time.Millisecond)
				b, _ := h.refuse(ask(client(i, class), 1))
				first[i] = b.Due
				histogram.add(b.Due)
			}
			if most := histogram.most(); float64(most) > 1.3*free {
				t.Errorf("%d return in one second, free capacity is %v", most, free)
			}
			if seconds := len(histogram); seconds > 23 { // and no slower than need be: 1000 / (1.2 * 47.5) = 17.5
				t.Errorf("returns take %d seconds", seconds)
			}
			for i, due := range first {
				if b, _ := h.refuse(ask(client(i, class), 1)); !b.Due.Equal(due) {
					t.Fatalf("client %d: %v, then %v", i, due, b.Due)
				}
			}
		})
	}
}

// cases/overload.md 29, where the free capacity is not given but learned, from a
// minute of more than it can do.
func TestCase_Overload_D29_LearnedRate(t *testing.T) {
	s := newService(t, 10, comporta.ClassProven, exponential(200*time.Millisecond)) // 50/s
	for range 60 {
		for j := range 60 {
			s.come(time.Duration(j)*16*time.Millisecond, 1)
		}
		s.run(time.Second)
	}
	s.run(30 * time.Minute) // everybody comes home, and nobody new
	e := s.state.Estimates()
	if e.Drain < 45 || e.Drain > 50*luck {
		t.Fatalf("learned %+v, the service does 50/s", e)
	}
	histogram := perSecond{}
	for i := range 1000 {
		s.now = s.now.Add(time.Millisecond / 2)
		s.load = Load{10, 10}
		b, _ := s.refuse(ask(client(1_000_000+i, comporta.ClassProven), 1))
		histogram.add(b.Due)
	}
	if most := histogram.most(); float64(most) > 1.3*50*0.95*luck || len(histogram) > 30 {
		t.Errorf("%d return in one second, within %d seconds; %+v", most, len(histogram), s.state.Estimates())
	}
}

// cases/overload.md 27: the wait is known to the millisecond, and is never 0: the
// header and the body can both be made of it.
func TestCase_Overload_D27_NeverZero(t *testing.T) {
	h := newHouse(t, Config{})
	r := ask(client(1, comporta.ClassProven), 1)
	b, _ := h.refuse(r)
	h.now = b.Due.Add(-105 * time.Millisecond)
	if again, _ := h.refuse(r); again.Due.Sub(h.now) != 105*time.Millisecond {
		t.Errorf("wait %v", again.Due.Sub(h.now))
	}
	h.now = b.Due // and when the instant is there, refusing means a new wait
	if again, _ := h.refuse(r); again.Due.Sub(h.now) < time.Second {
		t.Errorf("wait %v", again.Due.Sub(h.now))
	}
}

// cases/overload.md 30: 12 minutes of outage at 0.7 of the rate that the service
// can do, clients that give up after 5 attempts. Waits that grow with the backlog
// bring 95 % of the operations home.
func TestCase_Overload_D30_WaitGrowsWithBacklog(t *testing.T) {
	const (
		mu     = 20
		outage = 12 * 60
		served = 0.95
	)
	for _, class := range []comporta.Class{comporta.ClassAnonymous, comporta.ClassVerified} {
		t.Run(class.String(), func(t *testing.T) {
			born, home := outageRun(t, class, mu, outage)
			t.Logf("%d of %d served", home, born)
			if home := float64(home) / float64(born); home < served {
				t.Errorf("%.1f %% served, want %.0f %%", 100*home, 100*served)
			}
		})
	}
}

// outageRun runs a service that does mu requests/s, but for the outage, and says
// how many operations of the outage came home. Who enters is decided as admission
// does: newcomers first, then aged slots, and what is left.
func outageRun(t *testing.T, class comporta.Class, mu, outage int) (born, home int) {
	type op struct {
		*comporta.Request
		attempts int
		outage   bool
	}
	const (
		perSecond = 10
		healthy   = 60 * perSecond // before the outage
	)
	h := newHouse(t, Config{})
	h.load = Load{Inflight: mu, Limit: mu}
	h.rate(float64(mu))
	ok := comporta.Outcome{Status: 200, Result: comporta.ResultSuccess, Latency: time.Second}
	rng := rand.New(rand.NewPCG(1, 2))
	waiting := map[int64][]*op{}
	free := 0.0
	for step := range int64(3600 * perSecond) {
		now := h.now
		down := step >= healthy && step < healthy+int64(outage*perSecond)
		free = min(free+float64(mu)/perSecond, float64(mu))
		come := waiting[step]
		delete(waiting, step)
		for n := 0.7 * float64(mu) / perSecond; rng.Float64() < n; n-- {
			come = append(come, &op{Request: ask(client(rng.Int(), class), 1), outage: down})
			if down {
				born++
			}
		}
		for _, o := range come {
			h.LookAt(now, o.Request)
		}
		slices.SortStableFunc(come, func(a, b *op) int { return rank(a.Slot.State) - rank(b.Slot.State) })
		for _, o := range come {
			if o.attempts++; o.attempts > 1 {
				o.Sighting.Kind = comporta.KindRetry
			}
			if !down && free >= 1 {
				free--
				h.AdmittedAt(now, o.Request)
				h.DoneAt(now, ok, h.load)
				if o.outage {
					home++
				}
				continue
			}
			reason := comporta.CapacityExhausted
			if down {
				reason = comporta.UpstreamUnavailable
			}
			if b := h.BookAt(now, o.Request, reason, h.load); o.attempts < 5 {
				at := (b.Due.Sub(start)*perSecond + time.Second - 1) / time.Second
				waiting[int64(at)] = append(waiting[int64(at)], o)
			}
		}
		h.later(time.Second / perSecond)
	}
	return born, home
}

func rank(s comporta.SlotState) int {
	return map[comporta.SlotState]int{comporta.SlotNone: 0, comporta.SlotAged: 1, comporta.SlotRedeemed: 2, comporta.SlotPlain: 3}[s]
}

// A flood of invented identities, each from a network of its own, leaves the
// instants of proven clients where they were, and the tables within their bytes.
func TestFlood_InventedIdentities(t *testing.T) {
	const proven = 500
	invented := 1_000_000
	if raceEnabled {
		invented = 100_000 // the same in a tenth of the time
	}
	waits := func(flood bool) (mean, most time.Duration) {
		h := newHouseOf(t, Config{}, 0)
		h.rate(100)
		size := h.state.Bytes()
		r := ask(comporta.Client{}, 1)
		var sum time.Duration
		for i := range proven {
			if flood {
				for j := range invented / proven {
					r.Client = client(1_000_000+i*invented/proven+j, comporta.ClassAnonymous)
					h.refuse(r)
				}
			}
			h.later(10 * time.Millisecond)
			b, _ := h.refuse(ask(client(i, comporta.ClassProven), 1))
			if b.Plain {
				t.Fatal("a proven client got no place")
			}
			wait := b.Due.Sub(h.now)
			sum, most = sum+wait, max(most, wait)
		}
		if h.state.Bytes() != size || size > DefaultStateBytes {
			t.Errorf("%d bytes, then %d", size, h.state.Bytes())
		}
		for i := range proven { // nobody's instant was pushed out of the table
			if h.look(ask(client(i, comporta.ClassProven), 1)).State == comporta.SlotNone && i > proven/2 {
				t.Fatalf("the instant of client %d is forgotten", i)
			}
		}
		return sum / proven, most
	}
	calmMean, calmMost := waits(false)
	mean, most := waits(true)
	t.Logf("wait of the proven: mean %v, most %v; in the flood mean %v, most %v", calmMean, calmMost, mean, most)
	if mean > calmMean*3/2 || most > calmMost*3/2 {
		t.Errorf("the flood moved the proven from %v (most %v) to %v (most %v)", calmMean, calmMost, mean, most)
	}
}

// A site without identities drains at full rate: alone, the others have all of it.
func TestOthersAlone_FullRate(t *testing.T) {
	h := newHouse(t, Config{})
	h.rate(100)
	var last time.Time
	for i := range 1000 {
		b, _ := h.refuse(ask(client(i, comporta.ClassAnonymous), 1))
		last = b.Due
	}
	if wait, want := last.Sub(h.now), 1000.0/(95*1.2)+1; math.Abs(wait.Seconds()-want) > 1 {
		t.Errorf("1,000 are spread over %v, want %.1f s", wait, want)
	}
}

// While both ask, the believed are booked four times as fast.
func TestBothAsk_FourToOne(t *testing.T) {
	h := newHouse(t, Config{})
	h.rate(100)
	var last [sides]time.Duration
	for i := range 200 {
		for sd, class := range []comporta.Class{comporta.ClassProven, comporta.ClassAnonymous} {
			h.refuse(ask(client(2*i+sd, class), 1))
			last[sd] = time.Duration(h.state.words[sd].next.Load() - h.now.UnixNano())
		}
	}
	if want := 1 + 200/(0.8*95*1.2); math.Abs(last[believed].Seconds()-want) > 0.1 {
		t.Errorf("the believed are booked up to %v, want %.1f s", last[believed], want)
	}
	// What the bound gives by hash takes no place, so the schedule of the others
	// stops at the bound: twice the backlog.
	if bound := 1 + 2*400/95.0; last[others].Seconds() > bound+1 || last[others] < last[believed] {
		t.Errorf("the others are booked up to %v, bound %.1f s", last[others], bound)
	}
}

// 40 offices behind NAT, 100 people each with nothing but an address: bounded
// shares, every instant within the horizon, and no crowd at any second.
func TestNAT(t *testing.T) {
	h := newHouse(t, Config{})
	h.rate(50)
	histogram, plain := perSecond{}, 0
	for i := range 4000 {
		r := ask(client(i%40, comporta.ClassAnonymous), i)
		r.Client.Shared = true
		b, _ := h.refuse(r)
		if r.Slot.Crowding || r.Slot.Disobedient {
			t.Fatal("an office is accused")
		}
		if wait := b.Due.Sub(h.now); wait < time.Second || wait > DefaultHorizon {
			t.Fatalf("wait %v", wait)
		}
		if histogram.add(b.Due); b.Plain {
			plain++
		}
	}
	if plain != 4000-40*maxBookings {
		t.Errorf("%d plain, want %d", plain, 4000-40*maxBookings)
	}
	if most := histogram.most(); most > 150 {
		t.Errorf("%d return in one second", most)
	}
}

func TestModes(t *testing.T) {
	t.Run("hash", func(t *testing.T) {
		h := newHouse(t, Config{Mode: ModeHash})
		seen := perSecond{}
		for i := range 5000 {
			b, ticket := h.refuse(ask(client(i, comporta.ClassProven), 1))
			if wait := b.Due.Sub(h.now); wait < 10*time.Second || wait >= 60*time.Second || ticket == "" {
				t.Fatalf("wait %v, ticket %q", wait, ticket)
			}
			seen.add(b.Due)
		}
		if most := seen.most(); len(seen) != 50 || most > 160 {
			t.Errorf("%d seconds, %d in one", len(seen), most)
		}
		one, _ := h.refuse(ask(client(1, comporta.ClassProven), 2))
		two, _ := h.refuse(ask(client(1, comporta.ClassProven), 3))
		if !one.Due.Equal(two.Due) {
			t.Error("a hash of the client that differs by operation")
		}
	})
	t.Run("spread", func(t *testing.T) {
		h := newHouse(t, Config{Mode: ModeSpread})
		h.rate(50)
		var most time.Duration
		for i := range 10_000 { // 10,000 / 47.5 = 210 s
			b, _ := h.refuse(ask(client(i, comporta.ClassProven), 1))
			wait := b.Due.Sub(h.now)
			most = max(most, wait)
			if i < 1000 && wait > 52*time.Second {
				t.Fatalf("wait %v while %d wait", wait, i)
			}
		}
		if most < 180*time.Second || most > 213*time.Second {
			t.Errorf("longest wait %v", most)
		}
	})
	for _, mode := range []Mode{ModeCalendar, ModeSpread, ModeHash} {
		t.Run("the same instant in "+string(mode), func(t *testing.T) {
			h := newHouse(t, Config{Mode: mode})
			r := ask(client(1, comporta.ClassAnonymous), 1)
			b, ticket := h.refuse(r)
			for range 5 {
				h.later(100 * time.Millisecond)
				r.Ticket = ""
				if again, _ := h.refuse(r); !again.Due.Equal(b.Due) {
					t.Errorf("%v, was %v", again.Due, b.Due)
				}
				r.Ticket = ticket
				if again, _ := h.refuse(r); !again.Due.Equal(b.Due) {
					t.Errorf("with ticket %v, was %v", again.Due, b.Due)
				}
			}
			h.now = b.Due
			h.want(r, comporta.SlotRedeemed)
		})
	}
}

// Slots of one second are never more than drain x overbook (+1), each operation's
// instant is stable, none is early and none is beyond the horizon, whatever the
// order in which clients ask.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := newHouse(t, Config{})
		h.rate(rapid.Float64Range(1, 200).Draw(rt, "rate"))
		h.state.second.Store(h.now.Unix())
		rate := h.state.spare.load() * overbookMin
		given, histogram := map[[2]int]time.Time{}, perSecond{}
		clients := rapid.IntRange(1, 60).Draw(rt, "clients")
		steps := rapid.IntRange(1, 400).Draw(rt, "steps")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		for range steps {
			who, what := rng.IntN(clients), rng.IntN(20)
			r := ask(client(who, comporta.ClassProven), what)
			if h.LookAt(h.now, r); r.Slot.State != comporta.SlotNone && r.Slot.State != comporta.SlotEarly {
				rt.Fatalf("slot %v before any instant has come", r.Slot.State)
			}
			r.Slot.Disobedient = false // which would move it to the other side
			beyond := h.state.Stats().Beyond
			b := h.BookAt(h.now, r, comporta.CapacityExhausted, h.load)
			if wait := b.Due.Sub(h.now); b.Fresh && wait < time.Second || wait > DefaultHorizon {
				rt.Fatalf("wait %v", wait)
			}
			if due, ok := given[[2]int{who, what}]; ok && !due.Equal(b.Due) {
				rt.Fatalf("%v, was %v", b.Due, due)
			} else if !ok && !b.Plain && h.state.Stats().Beyond == beyond {
				histogram.add(b.Due)
			}
			given[[2]int{who, what}] = b.Due
		}
		if most := histogram.most(); float64(most) > rate+1 {
			rt.Fatalf("%d slots in one second at %.1f/s", most, rate)
		}
	})
}
