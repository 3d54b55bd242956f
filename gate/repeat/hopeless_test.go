package repeat

import (
	"fmt"
	"testing"
	"time"

	"github.com/comporta/comporta"
)

// cases/overload.md 32: what fails the same deterministic way is to be told so.
func TestCase_Overload_D32_SameStatusIsHopelessAfterN(t *testing.T) {
	for _, status := range []int{400, 404, 405, 410, 413, 414, 415, 422, 501} {
		d := newDetector(t, Config{})
		r := post("/orders")
		for i := 1; i <= 5; i++ {
			r = again(r)
			d.SeeAt(noon, r, 9, false)
			if want := i > 3; (r.Sighting.Kind == comporta.KindHopeless) != want {
				t.Errorf("%d: sighting %d is %v", status, i, r.Sighting.Kind)
			}
			if hopeless := d.ResolveAt(noon, r, answered(status)); hopeless != (i >= 3) {
				t.Errorf("%d: answer %d hopeless: %v", status, i, hopeless)
			}
		}
	}
}

func TestHopelessNeedsTheSameAnswerInARow(t *testing.T) {
	deterministic, refused := answered(422), ended(comporta.ResultRefused, 0)
	declared := comporta.Outcome{Status: 409, Result: comporta.ResultDeterministic}
	for _, c := range []struct {
		name string
		ends []comporta.Outcome
		want comporta.Kind
	}{
		{"three", []comporta.Outcome{deterministic, deterministic, deterministic}, comporta.KindHopeless},
		{"declared by the application", []comporta.Outcome{declared, declared, declared}, comporta.KindHopeless},
		{"another answer between", []comporta.Outcome{deterministic, deterministic, answered(400), deterministic}, comporta.KindRetry},
		{"success between", []comporta.Outcome{deterministic, deterministic, answered(200), deterministic}, comporta.KindRetry},
		{"refusals do not count", []comporta.Outcome{refused, refused, refused}, comporta.KindRetry},
		{"refusals do not forget", []comporta.Outcome{deterministic, refused, deterministic, refused, deterministic}, comporta.KindHopeless},
		{"success at last", []comporta.Outcome{deterministic, deterministic, deterministic, answered(200)}, comporta.KindPoll},
		{"429 and 503", []comporta.Outcome{answered(429), answered(429), answered(429), answered(503), answered(503), answered(503)}, comporta.KindRetry},
		{"plain failures", []comporta.Outcome{answered(409), answered(409), answered(409)}, comporta.KindRetry},
	} {
		d := newDetector(t, Config{})
		r := keyed(post("/x"), "k")
		for _, o := range c.ends {
			run(d, noon, again(r), 0, o)
		}
		if k := kindAt(d, noon, r, 0); k != c.want {
			t.Errorf("%s: %v, want %v", c.name, k, c.want)
		}
	}
}

// healthyRoute lets n different requests succeed on route 1.
func healthyRoute(d *Detector, now time.Time, n int) {
	for i := range n {
		run(d, now, get(fmt.Sprintf("/ok/%d", i)), 0, answered(200))
	}
}

// cases/overload.md 32: a 500 that repeats while others succeed.
func TestCase_Overload_D32_Same5xxWhileOthersSucceed(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		others func(d *Detector, now time.Time)
		want   bool
	}{
		{"others succeed", 500, func(d *Detector, now time.Time) { healthyRoute(d, now, 40) }, true},
		{"502 of a worker that the body kills", 502, func(d *Detector, now time.Time) { healthyRoute(d, now, 40) }, true},
		{"503 says that it passes", 503, func(d *Detector, now time.Time) { healthyRoute(d, now, 40) }, false},
		{"nobody else asks", 500, func(*Detector, time.Time) {}, false},
		{"nine others", 500, func(d *Detector, now time.Time) { healthyRoute(d, now, 9) }, false},
		{"an other one, often", 500, func(d *Detector, now time.Time) {
			for range 50 {
				healthyRoute(d, now, 1)
			}
		}, false},
		{"others on another route", 500, func(d *Detector, now time.Time) {
			for i := range 40 {
				r := get(fmt.Sprintf("/ok/%d", i))
				r.Route = 2
				run(d, now, r, 0, answered(200))
			}
		}, false},
		{"half of the others fail", 500, func(d *Detector, now time.Time) {
			for i := range 80 {
				run(d, now, get(fmt.Sprintf("/ok/%d", i)), 0, answered(200+i%2*300))
			}
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDetector(t, Config{})
			now, r := noon, post("/poison")
			for i := 1; i <= 6; i++ {
				c.others(d, now)
				r = again(r)
				d.SeeAt(now, r, 3, false)
				if got := r.Sighting.Kind == comporta.KindHopeless; got != (c.want && i > 3) {
					t.Errorf("sighting %d: %v", i, r.Sighting.Kind)
				}
				if got := d.ResolveAt(now, r, answered(c.status)); got != (c.want && i >= 3) {
					t.Errorf("answer %d: hopeless %v", i, got)
				}
				now = now.Add(5 * time.Second)
			}
		})
	}
}

func TestOutageMakesNobodyHopeless(t *testing.T) {
	// In the first minute of an outage many others still succeeded within the
	// minute. Their word must not count: nobody succeeds any more.
	d := newDetector(t, Config{})
	healthyRoute(d, noon, 500)
	for second := 1; second <= 60; second++ {
		now := noon.Add(time.Duration(second) * time.Second)
		for client := range 5 {
			r := get("/orders")
			r.Client.Key = uint64(100 + client)
			hopeless := run(d, now, r, 0, answered(500))
			if hopeless || r.Sighting.Kind == comporta.KindHopeless {
				t.Fatalf("second %d: %+v", second, r.Sighting)
			}
		}
	}
}

func TestRoutesOutOfRangeAreHarmless(t *testing.T) {
	d := newDetector(t, Config{})
	for _, index := range []int{-1, MaxRoutes, 1 << 40} {
		for range 5 {
			r := get("/x")
			r.Route = index
			run(d, noon, r, 0, answered(500))
		}
	}
}
