package calendar

import (
	"container/heap"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/comporta/comporta"
)

// service is a house in virtual time whose rate the calendar has to learn: so
// many places, each taken for as long as an answer takes. Clients obey.
type service struct {
	*house
	rng     *rand.Rand
	limit   int
	latency func(*rand.Rand) time.Duration
	class   comporta.Class

	events   events
	inflight int
	clients  int
	told     []time.Duration // the waits of those refused for the first time
	served   int
}

func newService(t *testing.T, limit int, class comporta.Class, latency func(*rand.Rand) time.Duration) *service {
	t.Helper()
	return &service{house: newHouse(t, Config{}), rng: rand.New(rand.NewPCG(3, 5)), limit: limit, class: class, latency: latency}
}

func always(d time.Duration) func(*rand.Rand) time.Duration {
	return func(*rand.Rand) time.Duration { return d }
}

func exponential(mean time.Duration) func(*rand.Rand) time.Duration {
	return func(rng *rand.Rand) time.Duration { return time.Duration(rng.ExpFloat64() * float64(mean)) }
}

// event is somebody who comes, or an answer that leaves.
type event struct {
	at       time.Time
	r        *comporta.Request
	attempts int
	took     time.Duration // of an answer; 0 = somebody comes
}

type events []event

func (e *events) Len() int           { return len(*e) }
func (e *events) Less(i, j int) bool { return (*e)[i].at.Before((*e)[j].at) }
func (e *events) Swap(i, j int)      { (*e)[i], (*e)[j] = (*e)[j], (*e)[i] }
func (e *events) Push(x any)         { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// come plans n newcomers.
func (s *service) come(in time.Duration, n int) {
	for range n {
		s.clients++
		heap.Push(&s.events, event{at: s.now.Add(in), r: ask(client(s.clients, s.class), 1)})
	}
}

// run lives through d.
func (s *service) run(d time.Duration) {
	end := s.now.Add(d)
	for len(s.events) > 0 && !s.events[0].at.After(end) {
		e := heap.Pop(&s.events).(event)
		s.now = e.at
		if e.took > 0 {
			s.DoneAt(s.now, comporta.Outcome{Status: 200, Result: comporta.ResultSuccess, Latency: e.took}, Load{s.inflight, s.limit})
			s.inflight--
			s.served++
			continue
		}
		s.enter(e)
	}
	s.now = end
}

func (s *service) enter(e event) {
	s.LookAt(s.now, e.r)
	if e.attempts++; e.attempts > 1 {
		e.r.Sighting.Kind = comporta.KindRetry
	}
	if s.inflight < s.limit {
		s.AdmittedAt(s.now, e.r)
		s.inflight++
		took := max(s.latency(s.rng), 1)
		heap.Push(&s.events, event{at: s.now.Add(took), took: took})
		return
	}
	b := s.BookAt(s.now, e.r, comporta.CapacityExhausted, Load{s.inflight, s.limit})
	if e.attempts == 1 {
		s.told = append(s.told, b.Due.Sub(s.now))
	}
	e.at = b.Due
	heap.Push(&s.events, e)
}

func longestOf(waits []time.Duration) (most time.Duration) {
	for _, w := range waits {
		most = max(most, w)
	}
	return most
}

// A service that takes seconds, and is asked by batches, is as fast in the
// estimates as it is: nobody is told minutes where a quarter of one is the truth.
func TestSlowServiceInBatches(t *testing.T) {
	for _, c := range []struct {
		name    string
		latency func(*rand.Rand) time.Duration
		limit   int
		batch   int
		every   time.Duration
		rate    float64
		times   float64
	}{
		{"4 s", always(4 * time.Second), 4, 20, time.Minute, 1, 2},
		{"4 s, after a long pause each", always(4 * time.Second), 4, 20, 5 * time.Minute, 1, 2},
		{"about 4 s", exponential(4 * time.Second), 4, 20, time.Minute, 1, 4},
		{"one at a time", always(2 * time.Second), 1, 10, time.Minute, 0.5, 2},
		{"just more than fit", always(4 * time.Second), 4, 6, 20 * time.Second, 1, 2},
		{"half a minute each", always(30 * time.Second), 10, 20, 3 * time.Minute, 0.333, 2},
	} {
		for _, class := range []comporta.Class{comporta.ClassProven, comporta.ClassAnonymous} {
			t.Run(c.name+" "+class.String(), func(t *testing.T) {
				s := newService(t, c.limit, class, c.latency)
				for i := range 10 {
					s.told = s.told[:0]
					for j := range c.batch {
						s.come(time.Duration(j)*100*time.Millisecond, 1)
					}
					s.run(time.Duration(c.batch) * 100 * time.Millisecond)
					e := s.state.Estimates()
					s.run(c.every - time.Duration(c.batch)*100*time.Millisecond)
					truth := time.Duration(float64(c.batch) / c.rate * float64(time.Second))
					most := longestOf(s.told)
					t.Logf("batch %d: told up to %v, truth %v; %+v", i, most, truth, e)
					if i > 0 && (most.Seconds() > c.times*truth.Seconds() || most < truth*time.Duration(c.batch-c.limit)/time.Duration(4*c.batch)) { // in the first, nothing is known
						t.Errorf("batch %d: told up to %v where %v is the truth", i, most, truth)
					}
				}
			})
		}
	}
}

// Chance does not make a service faster: at a steady 2/s some seconds see four.
func TestSteadyLowRate(t *testing.T) {
	for name, latency := range map[string]func(*rand.Rand) time.Duration{
		"always": always(500 * time.Millisecond), "exponential": exponential(500 * time.Millisecond),
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(t, 1, comporta.ClassAnonymous, latency)
			var worst [2]float64
			for i := range 600 {
				for range 3 {
					s.come(time.Duration(s.rng.Int64N(int64(time.Second))), 1)
				}
				s.run(time.Second)
				if i < 60 {
					continue
				}
				drain := s.state.Estimates().Drain
				if worst[0] == 0 {
					worst[0] = drain
				}
				worst = [2]float64{min(worst[0], drain), max(worst[1], drain)}
			}
			t.Logf("drain %.2f to %.2f/s, served %d", worst[0], worst[1], s.served)
			if worst[0] < 2/1.5 || worst[1] > 2*1.5 {
				t.Errorf("drain %.2f to %.2f/s, the service does 2/s", worst[0], worst[1])
			}
		})
	}
}

// A fast service in a full house is as fast as its answers come.
func TestFastServiceInFullHouse(t *testing.T) {
	s := newService(t, 40, comporta.ClassAnonymous, exponential(200*time.Millisecond))
	for range 30 {
		for j := range 400 {
			s.come(time.Duration(j)*time.Second/400, 1)
		}
		s.run(time.Second)
	}
	if drain := s.state.Estimates().Drain; drain < 180 || drain > 200*luck {
		t.Errorf("drain %.1f/s, want 200 to 250", drain)
	}
}
