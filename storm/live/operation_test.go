package live

import (
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/comporta/comporta/storm"
)

const ms = time.Millisecond

// at returns an operation of a class that made attempts of its go.
func at(c storm.Class, attempts int) *operation {
	s := &Storm{Scenario: storm.Incident(), URL: "http://service"}
	start := time.Unix(1_000_000, 0)
	return &operation{
		run: &run{Storm: s, record: newRecorder(s.Scenario, start)}, class: &c, rng: rand.New(rand.NewPCG(1, 2)),
		began: start, attempts: attempts, inGo: attempts, user: "u",
	}
}

func TestNext(t *testing.T) {
	obedient := storm.Class{Manner: storm.Obedient, Attempts: 3, Base: 100 * ms, Cap: 400 * ms, Patience: 10 * time.Second}
	naive := storm.Class{Manner: storm.Naive, Attempts: 3, Base: 100 * ms, Cap: 150 * ms, Patience: 10 * time.Second}
	parks := naive
	parks.Parks, parks.Patience = true, 20*time.Second
	loop := storm.Class{Manner: storm.Disobedient, Base: 100 * ms, Patience: 10 * time.Second}
	told := answer{status: 503, wait: 2 * time.Second}
	end := storm.Incident().OutageEnd()
	for _, test := range []struct {
		name        string
		class       storm.Class
		attempts    int
		a           answer
		elapsed     time.Duration
		again       bool
		least, most time.Duration
	}{
		{"untold: full jitter", obedient, 1, answer{status: 500}, 0, true, 0, 100 * ms},
		{"untold, later", obedient, 2, answer{status: 500}, 0, true, 0, 200 * ms},
		{"told: that and up to a tenth", obedient, 1, told, 0, true, 2000 * ms, 2200 * ms},
		{"told to stop", obedient, 1, answer{status: 503, wait: time.Second, stop: true}, 0, false, 0, 0},
		{"a wait that does not fit", obedient, 1, answer{status: 503, wait: time.Minute}, 0, false, 0, 0},
		{"ceiling", obedient, 3, told, 0, false, 0, 0},
		{"naive reads nothing", naive, 1, answer{status: 503, wait: time.Minute, stop: true}, 0, true, 80 * ms, 120 * ms},
		{"naive backs off to its cap", naive, 2, told, 0, true, 120 * ms, 180 * ms},
		{"naive ceiling", naive, 3, told, 0, false, 0, 0},
		{"impatient", naive, 1, told, 11 * time.Second, false, 0, 0},
		{"parks until the wake", parks, 1, told, end - time.Second, true, time.Second, 1500 * ms},
		{"parks again, and drifts", parks, 3, told, end + time.Second, true, 4 * time.Second, 5 * time.Second},
		{"in a go of a parked one", parks, 2, told, end + time.Second, true, 120 * ms, 180 * ms},
		{"loop", loop, 500, told, 9 * time.Second, true, 80 * ms, 120 * ms},
	} {
		o := at(test.class, test.attempts)
		a := test.a
		wait, again := o.next(o.began.Add(test.elapsed), &a)
		if again != test.again || again && (wait < test.least || wait > test.most) {
			t.Errorf("%s: %v, %v; want %v within %v and %v", test.name, wait, again, test.again, test.least, test.most)
		}
	}
}

// A ticket says that the wait is spread already: wire.md asks to wait it exactly,
// and at most a second more.
func TestTicketIsKeptAndBroughtAlong(t *testing.T) {
	o := at(storm.Class{Manner: storm.Obedient, Attempts: 9, Base: ms, Cap: ms, Patience: time.Hour, Keyed: true}, 1)
	a := answer{status: 503, wait: time.Minute, ticket: "v1.x"}
	if wait, again := o.next(o.began, &a); !again || wait < time.Minute || wait > time.Minute+time.Second {
		t.Errorf("%v, %v", wait, again)
	}
	req, err := o.request(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"Retry-Ticket": "v1.x", "Retry-Attempt": "1", "Idempotency-Key": "0-0", "X-Api-Key": "u"} {
		if got := req.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestWaitOf(t *testing.T) {
	for _, test := range []struct {
		exact, seconds string
		want           time.Duration
	}{
		{"", "", 0},
		{"1500", "2", 1500 * ms},
		{"", "37", 37 * time.Second},
		{"soon", "37", 37 * time.Second},
		{"-1", "", 0},
		{"", "Fri, 31 Dec 1999 23:59:59 GMT", 0},
		{"99999999999999999999", "1", time.Second},
	} {
		h := http.Header{}
		h.Set("Retry-After-Ms", test.exact)
		h.Set("Retry-After", test.seconds)
		if got := waitOf(h); got != test.want {
			t.Errorf("%q, %q: %v, want %v", test.exact, test.seconds, got, test.want)
		}
	}
}

// The same operation is the same under every defence.
func TestOperationsAreDrawnFromTheSeed(t *testing.T) {
	r := at(storm.Class{}, 0).run
	for i := range r.Scenario.Classes {
		r.weights += r.Scenario.Classes[i].Share
	}
	classes := map[string]int{}
	for i := range uint64(10_000) {
		a, b := newOperation(r, i), newOperation(r, i)
		if a.user != b.user || a.class != b.class || a.rng.Uint64() != b.rng.Uint64() {
			t.Fatalf("operation %d is two", i)
		}
		classes[a.class.Name]++
	}
	for _, c := range r.Scenario.Classes {
		if got := float64(classes[c.Name]) / 10_000; got < c.Share-0.02 || got > c.Share+0.02 {
			t.Errorf("%s: share %v, want %v", c.Name, got, c.Share)
		}
	}
}
