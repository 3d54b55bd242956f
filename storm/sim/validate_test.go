//go:build validate

package sim

import (
	"cmp"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/comporta/comporta/gate"
	"github.com/comporta/comporta/storm"
	"github.com/comporta/comporta/storm/live"
)

// The engine against the world: the short incident over real HTTP on loopback, with
// the real gate in real time, and the same operations in the simulator. Run by
// `make validate-sim` on a machine that has nothing else to do.

const (
	validLength  = 13 * time.Second
	mostNRMSE    = 0.10 // of goodput by the second, in multiples of the demand
	mostPeak     = 0.10
	mostRepeats  = 0.04
	validPermits = 1.5 // in flight for each slot, as storm/live's own tests have it
)

// enacted plays the people of storm/live: they draw what those draw, in the same
// order, so that both ask the same.
type enacted struct {
	s        *storm.Scenario
	arrivals *rand.Rand
	due      float64 // seconds
	people   map[uint64]*person
	weights  float64
}

type person struct {
	rng     *rand.Rand
	wording uint64
}

func enact(s *storm.Scenario) *enacted {
	p := &enacted{s: s, arrivals: rand.New(rand.NewPCG(s.Seed, ^uint64(0))), people: map[uint64]*person{}}
	for i := range s.Classes {
		p.weights += s.Classes[i].Share
	}
	return p
}

func (p *enacted) arrive(*engine) instant {
	p.due += p.arrivals.ExpFloat64() / p.s.Demand
	return instant(p.due * float64(time.Second))
}

func (p *enacted) begin(e *engine, id uint64) uint32 {
	i := e.allocate()
	o, who := &e.ops[i], &person{rng: rand.New(rand.NewPCG(p.s.Seed, id-1))}
	x, class := who.rng.Float64()*p.weights, 0
	for class < len(p.s.Classes)-1 {
		if x -= p.s.Classes[class].Share; x < 0 {
			break
		}
		class++
	}
	c := &p.s.Classes[class]
	*o = operation{id: id, name: id << 16, begun: e.now, class: uint8(class), timeout: instant(c.Timeout), until: e.now + instant(c.Patience)}
	o.user = e.population.offsets[class] + uint32(who.rng.IntN(c.Users))
	o.set(lookup, !c.Keyed)
	p.people[id] = who
	return i
}

func (p *enacted) reword(e *engine, o *operation) {
	who := p.people[o.id]
	if who.rng.Float64() < p.s.Classes[o.class].Reworded {
		who.wording++
		o.name, o.ticket = o.id<<16+who.wording, 0
	}
}

func (p *enacted) next(e *engine, o *operation) instant {
	c, who := &p.s.Classes[o.class], p.people[o.id]
	upTo := func(d time.Duration) time.Duration { return time.Duration(who.rng.Float64() * float64(d)) }
	backoff := min(c.Base<<min(o.inGo-1, 20), max(c.Cap, c.Base))
	var wait time.Duration
	switch {
	case o.answer == barred, c.Manner != storm.Disobedient && int(o.inGo) >= c.Attempts && !c.Parks:
		return never
	case c.Manner == storm.Disobedient:
		wait = c.Base*4/5 + upTo(c.Base*2/5)
	case c.Manner == storm.Obedient && o.is(told) && o.due > e.now:
		wait = time.Duration(o.due - e.now)
		wait += upTo(min(wait/10, time.Second))
	case c.Manner == storm.Obedient:
		wait = upTo(backoff)
	case c.Parks && (o.attempts == 1 || int(o.inGo) >= c.Attempts):
		wait, o.inGo = p.wake(e.now)+upTo(p.spread(e.now)), 0
	default:
		wait = backoff*4/5 + upTo(backoff*2/5)
	}
	if at := e.now + instant(wait); at < o.until {
		return at
	}
	return never
}

func (p *enacted) wakes(now instant) int64 {
	if end := instant(p.s.OutageEnd()); now >= end {
		return int64(now-end)/int64(p.s.Wake) + 1
	}
	return 0
}

func (p *enacted) wake(now instant) time.Duration {
	return p.s.OutageEnd() + time.Duration(p.wakes(now))*p.s.Wake - time.Duration(now)
}

func (p *enacted) spread(now instant) time.Duration {
	return p.s.Spread * time.Duration(1+p.wakes(now))
}

// stage is a storm.Scenario in the words of this package, as far as the engine and
// the gate read them.
func stage(s *storm.Scenario) Scenario {
	x := Scenario{
		Demand: s.Demand, Warmup: s.OutageAt, Outage: s.Outage, Length: s.Length, Obey: -1, Estimate: validPermits,
		Service: Service{
			Slots: float64(s.Service.Slots) / s.Demand, Latency: s.Service.Latency, FailsIn: s.Service.HangsFor,
			Queue: time.Duration(float64(s.Service.Queue)/float64(s.Service.Slots)*float64(s.Service.Latency)) + time.Millisecond,
		},
	}
	for _, c := range s.Classes {
		x.Classes = append(x.Classes, Class{Name: c.Name, Share: c.Share, Keys: c.Users, SDK: c.Manner == storm.Obedient, Timeout: c.Timeout, Patience: c.Patience})
	}
	return x
}

// second is what both sides record.
type second struct{ sent, repeats, succeeded float64 }

func simulated(t *testing.T, s *storm.Scenario, open func(*engine) (door, error)) []second {
	t.Helper()
	x := stage(s)
	e, err := newEngine(&x, &Defence{open: open}, s.Seed)
	if err != nil {
		t.Fatal(err)
	}
	e.people, e.trip = enact(s), instant(time.Millisecond)
	if g, ok := e.door.(*gateway); ok {
		g.plain = true
	}
	seconds := make([]second, int((s.Length+time.Second-1)/time.Second))
	e.watch = func(o *operation, served bool) {
		at := &seconds[min(int(o.sent/instant(time.Second)), len(seconds)-1)]
		switch {
		case served:
			at.succeeded++
			return
		case o.attempts > 1:
			at.repeats++
		}
		at.sent++
	}
	e.run()
	return seconds
}

func lived(t *testing.T, s *storm.Scenario, wrap func(http.Handler) http.Handler) []second {
	t.Helper()
	rec, err := live.Incident(t.Context(), *s, wrap, nil)
	if err != nil {
		t.Fatal(err)
	}
	if before := rec.Result().Before; before < 0.95 {
		t.Errorf("only %.0f %% of the users were served before the outage: the machine is too busy to validate anything", 100*before)
	}
	var seconds []second
	for _, b := range rec.Seconds() {
		seconds = append(seconds, second{float64(b.Requests()), float64(b.Repeats), float64(b.Succeeded)})
	}
	return seconds
}

// guarded is a gate before a handler, the same as options make in the engine.
func guarded(t *testing.T, o gateOptions, permits int) func(http.Handler) http.Handler {
	t.Helper()
	g, err := gate.New(o.config(permits, storm.Incident().Demand), nil)
	if err != nil {
		t.Fatal(err)
	}
	return g.Wrap
}

func limitedTo(permits int) func(http.Handler) http.Handler {
	free := make(chan struct{}, permits)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case free <- struct{}{}:
				defer func() { <-free }()
				next.ServeHTTP(w, r)
			default:
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		})
	}
}

func TestEngineAgainstTheWorld(t *testing.T) {
	s := storm.Incident().Within(validLength)
	permits := int(math.Round(validPermits * float64(s.Service.Slots)))
	article := gateOptions{mode: "hash", reserve: true}
	defences := []struct {
		name string
		wrap func(http.Handler) http.Handler
		open func(*engine) (door, error)
	}{
		{"none", nil, opens(newBare)},
		{"limit", limitedTo(permits), opens(newLimited(staticRule))},
		{"article", guarded(t, article, permits), openGate(article)},
		{"ours", guarded(t, gateOptions{}, permits), openGate(gateOptions{})},
	}
	var orders [2][]string
	var served [2]map[string]float64
	served[0], served[1] = map[string]float64{}, map[string]float64{}
	for _, d := range defences {
		world, engine := lived(t, &s, d.wrap), simulated(t, &s, d.open)
		squares := 0.0
		for i := range world {
			miss := (world[i].succeeded - engine[i].succeeded) / s.Demand
			squares += miss * miss
			served[0][d.name] += world[i].succeeded
			served[1][d.name] += engine[i].succeeded
		}
		nrmse := math.Sqrt(squares / float64(len(world)))
		busiest := func(a, b second) int { return cmp.Compare(a.sent, b.sent) }
		w, e := slices.MaxFunc(world, busiest), slices.MaxFunc(engine, busiest)
		repeats := func(of []second) float64 {
			var sum second
			for _, x := range of {
				sum.sent, sum.repeats = sum.sent+x.sent, sum.repeats+x.repeats
			}
			return sum.repeats / sum.sent
		}
		t.Logf("%-8s goodput differs by %.3f of the demand; peak %.2fx and %.2fx; repeats %.3f and %.3f; served %.0f and %.0f",
			d.name, nrmse, w.sent/s.Demand, e.sent/s.Demand, repeats(world), repeats(engine), served[0][d.name], served[1][d.name])
		if nrmse > mostNRMSE {
			t.Errorf("%s: goodput differs by %.3f, at most %v", d.name, nrmse, mostNRMSE)
			for i := range world {
				t.Logf("  %2d s: %v and %v", i, world[i], engine[i])
			}
		}
		if math.Abs(w.sent-e.sent) > mostPeak*w.sent {
			t.Errorf("%s: peak %v in the world, %v in the engine", d.name, w.sent, e.sent)
		}
		if math.Abs(repeats(world)-repeats(engine)) > mostRepeats {
			t.Errorf("%s: repeats %.3f in the world, %.3f in the engine", d.name, repeats(world), repeats(engine))
		}
	}
	for i := range orders {
		for _, d := range defences {
			orders[i] = append(orders[i], d.name)
		}
		slices.SortFunc(orders[i], func(a, b string) int { return cmp.Compare(served[i][a], served[i][b]) })
	}
	if !slices.Equal(orders[0], orders[1]) {
		t.Errorf("the order is %v in the world, %v in the engine", orders[0], orders[1])
	}
}
