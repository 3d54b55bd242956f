package live_test

import (
	"net/http"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/comporta/comporta/gate"
	"github.com/comporta/comporta/gate/admission"
	"github.com/comporta/comporta/gate/calendar"
	"github.com/comporta/comporta/internal/memhttp"
	"github.com/comporta/comporta/storm"
	"github.com/comporta/comporta/storm/live"
)

// The incident in virtual time: real net/http on both sides of a network in
// memory, half a minute in less than a second. Each defence has to change a
// number that has a name.

// defence is what stands before the service. It is made inside the bubble.
type defence func(t *testing.T, s storm.Scenario) func(http.Handler) http.Handler

// ride runs a scenario in virtual time.
func ride(t *testing.T, scenario storm.Scenario, d defence) (recording *live.Recording, result live.Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		service := live.NewService(scenario.Service)
		var network memhttp.Network
		server := network.Serve("service", d(t, scenario)(service))
		transport := network.Transport(netip.Addr{})
		transport.MaxIdleConnsPerHost = live.MaxConnections
		s := live.Storm{Scenario: scenario, URL: server.URL, Transport: transport, Dependency: service.SetDown}
		var err error
		if recording, err = s.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		recording.Worked = service.Worked()
		transport.CloseIdleConnections()
		service.Close()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	result = recording.Result()
	t.Logf("%+v", result)
	if result.Before < 0.95 {
		t.Errorf("only %.1f %% of the users were served before the outage: no storm, but a service that is too small", 100*result.Before)
	}
	return recording, result
}

func none(*testing.T, storm.Scenario) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler { return next }
}

// permits is what a static limit allows: what is worked on, and half as much
// that waits.
func permits(s storm.Scenario) int { return s.Service.Slots * 3 / 2 }

// limit bounds what is in flight, and knows neither repeats nor instants. With
// retryAfter it tells all who are refused the same number of seconds.
func limit(retryAfter string) defence {
	return func(_ *testing.T, s storm.Scenario) func(http.Handler) http.Handler {
		free := make(chan struct{}, permits(s))
		return func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				select {
				case free <- struct{}{}:
					defer func() { <-free }()
					next.ServeHTTP(w, r)
				default:
					if retryAfter != "" {
						w.Header().Set("Retry-After", retryAfter)
					}
					w.WriteHeader(http.StatusServiceUnavailable)
				}
			})
		}
	}
}

// bare is the incident without a defence. It is the longest of the rides and
// always the same, so it is made once.
func bare(t *testing.T) (*live.Recording, live.Result) {
	t.Helper()
	if bareRecording == nil {
		bareRecording, _ = ride(t, storm.Incident(), none)
	}
	result := bareRecording.Result()
	return bareRecording, result
}

var bareRecording *live.Recording

// words adds a Retry-After to the service's own refusals and defends nothing.
func words(*testing.T, storm.Scenario) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "3")
			next.ServeHTTP(w, r)
		})
	}
}

func gated(config func(storm.Scenario) gate.Config) defence {
	return func(t *testing.T, s storm.Scenario) func(http.Handler) http.Handler {
		g, err := gate.New(config(s), nil)
		if err != nil {
			t.Fatal(err)
		}
		return func(next http.Handler) http.Handler {
			t.Cleanup(func() {
				if n := g.StatsAt(time.Now()).Inflight; n != 0 {
					t.Errorf("%d in flight when all is over", n)
				}
			})
			return g.Wrap(next)
		}
	}
}

func defaults(storm.Scenario) gate.Config { return gate.Config{} }

func static(s storm.Scenario) gate.Config {
	return gate.Config{Admission: gate.Admission{Capacity: permits(s)}}
}

// article is the rule of the source: 70 % for all, the rest for originals, and
// 10 s and a hash of the client until the return.
func article(s storm.Scenario) gate.Config {
	return gate.Config{
		Admission: gate.Admission{Capacity: permits(s), Policy: admission.PolicyReserve, Reserve: 0.3, QueueWait: -1},
		Slots:     calendar.Config{Mode: calendar.ModeHash},
	}
}

// first is the share of the users of the first seconds after the outage that
// were served.
func first(rec *live.Recording, length time.Duration) float64 {
	from := int(rec.Scenario.OutageEnd() / live.Interval)
	began, fresh := 0, 0
	for _, b := range rec.Buckets[from : from+int(length/live.Interval)] {
		began += b.Began
		fresh += b.Fresh
	}
	return float64(fresh) / float64(began)
}

// cases/storm.md S1: the dependency is back, and the service stays down, kept
// there by the load that its own failures bring.
func TestCase_Storm_S1_WithoutDefenceTheServiceStaysDown(t *testing.T) {
	rec, r := bare(t)
	if r.Recovered || r.RecoveryS < 15 {
		t.Errorf("recovered after %v s: nothing may have helped", r.RecoveryS)
	}
	if r.PeakX < 8 || r.PeakX > 11 || r.RepeatsAtPeak < 0.8 {
		t.Errorf("peak %vx of which %v repeats, want about 9x and 0.85", r.PeakX, r.RepeatsAtPeak)
	}
	if r.Wasted < 0.8 {
		t.Errorf("wasted %v: most of the work must be for clients that left", r.Wasted)
	}
	if f := first(rec, 15*time.Second); f > 0.05 {
		t.Errorf("%v of the users after the outage were served", f)
	}
}

// cases/storm.md S3: a bound on what is in flight ends it: no work for the dead.
// cases/storm.md S8: priority and instants serve fresh users from the first
// seconds, under a lower peak.
func TestCase_Storm_S3_S8_EachDefenceChangesItsNumber(t *testing.T) {
	s := storm.Incident()
	bareRec, down := bare(t)
	limitRec, limited := ride(t, s, limit(""))
	gateRec, guarded := ride(t, s, gated(static))

	if !limited.Recovered || limited.RecoveryS > down.RecoveryS/3 || limited.Wasted > 0.1 {
		t.Errorf("limit: recovery %v s (bare %v), wasted %v (bare %v)", limited.RecoveryS, down.RecoveryS, limited.Wasted, down.Wasted)
	}
	if !guarded.Recovered || guarded.RecoveryS > limited.RecoveryS {
		t.Errorf("gate: recovery %v s, the limit alone %v s", guarded.RecoveryS, limited.RecoveryS)
	}
	if f, l, b := first(gateRec, 3*time.Second), first(limitRec, 3*time.Second), first(bareRec, 3*time.Second); f <= l || l <= b {
		t.Errorf("served of those who came in the first 3 s: bare %v, limit %v, gate %v; each must improve", b, l, f)
	}
	if guarded.PeakX >= limited.PeakX {
		t.Errorf("gate: peak %vx, the limit alone %vx", guarded.PeakX, limited.PeakX)
	}
	if guarded.RequestsPerSuccess > down.RequestsPerSuccess/5 || guarded.Served < 5*down.Served {
		t.Errorf("gate: %v requests a success and %d served, bare %v and %d",
			guarded.RequestsPerSuccess, guarded.Served, down.RequestsPerSuccess, down.Served)
	}
}

// The configuration that everybody begins with has to be worth it, with the
// capacity learned, and so has the article's.
func TestIncidentIsShortWithTheDefaults(t *testing.T) {
	s := storm.Incident()
	_, down := bare(t)
	for name, config := range map[string]func(storm.Scenario) gate.Config{"defaults": defaults, "article": article} {
		_, r := ride(t, s, gated(config))
		if !r.Beats(&down) || r.RecoveryS > 3 || r.Wasted > 0.1 {
			t.Errorf("%s: %+v against %+v", name, r, down)
		}
	}
}

// cases/storm.md S4: a Retry-After without a limit is no defence.
func TestCase_Storm_S4_WordsAloneDoNotHelp(t *testing.T) {
	_, r := ride(t, storm.Incident().WithDemand(75), words)
	if r.Recovered {
		t.Errorf("recovered after %v s", r.RecoveryS)
	}
}

// obeying is the incident's population with a share of it that obeys; the rest
// is naive, with the same ceiling.
func obeying(share float64) storm.Scenario {
	s := storm.Incident()
	c := storm.Class{
		Users: 100, Attempts: 12, Base: 100 * time.Millisecond, Cap: 800 * time.Millisecond,
		Timeout: time.Second, Patience: 15 * time.Second, Keyed: true,
	}
	s.Classes = nil
	if share > 0 {
		c.Name, c.Share, c.Manner = "obedient", share, storm.Obedient
		s.Classes = append(s.Classes, c)
	}
	if share < 1 {
		c.Name, c.Share, c.Manner = "naive", 1-share, storm.Naive
		s.Classes = append(s.Classes, c)
	}
	return s.WithDemand(75)
}

// cases/storm.md S7: the more clients obey, the lower the peak.
func TestCase_Storm_S7_ObediencePays(t *testing.T) {
	last := 100.0
	for _, share := range []float64{0, 0.5, 1} {
		_, r := ride(t, obeying(share), gated(static))
		if r.PeakX >= last {
			t.Errorf("%v obey: peak %vx, not below %vx", share, r.PeakX, last)
		}
		last = r.PeakX
	}
	if last > 2.2 {
		t.Errorf("all obey: peak %vx", last)
	}
}

// Who obeys comes home: the waits follow what the service was seen to do, and
// not the few good answers of the second in which it went down.
func TestTheObedientComeHome(t *testing.T) {
	s := obeying(1).WithDemand(150)
	s.Length, s.Classes[0].Patience = time.Minute, 50*time.Second // nobody leaves before the longest wait that the backlog can excuse
	rec, _ := ride(t, s, gated(defaults))
	began, served := 0, 0
	outage, end := rec.Scenario.OutageAt, rec.Scenario.OutageEnd()
	for i, b := range rec.Buckets {
		if at := time.Duration(i) * live.Interval; at >= outage && at < end {
			began += b.Began
			served += b.Served
		}
	}
	if began == 0 || float64(served) < 0.95*float64(began) {
		t.Errorf("%d of the %d operations of the outage were served in the end", served, began)
	}
}

// An instant for each client, against one constant for all: the constant makes
// an appointment. Users that are not served are counted, not the moment of the last
// of them, which is chance where so few are left.
func TestInstantsAgainstAConstant(t *testing.T) {
	missed := func(rec *live.Recording) (n int) {
		s := &rec.Scenario
		for _, b := range rec.Buckets[s.OutageEnd()/live.Interval : (s.Length-s.FreshWithin)/live.Interval] {
			n += b.Began - b.Fresh
		}
		return n
	}
	constantRec, constant := ride(t, obeying(1), limit("5"))
	instantsRec, instants := ride(t, obeying(1), gated(static))
	if instants.PeakX >= constant.PeakX || missed(instantsRec) >= missed(constantRec)/2 {
		t.Errorf("instants: peak %vx, %d users not served; a constant: %vx, %d",
			instants.PeakX, missed(instantsRec), constant.PeakX, missed(constantRec))
	}
	t.Logf("not served: %d, and %d", missed(instantsRec), missed(constantRec))
}

// cases/storm.md S21, as far as goroutines allow: what is created is accounted
// for, and the same seed asks the same.
func TestCase_Storm_S21_NothingIsLost(t *testing.T) {
	s := storm.Incident().WithDemand(40).Within(13 * time.Second)
	var began [2]int
	for i := range began {
		rec, r := ride(t, s, gated(defaults))
		var b live.Bucket
		for _, x := range rec.Buckets {
			b.Originals += x.Originals
			b.Repeats += x.Repeats
			b.RefusedOriginals += x.RefusedOriginals
			b.RefusedRepeats += x.RefusedRepeats
			b.Succeeded += x.Succeeded
			b.Began += x.Began
			b.Served += x.Served
		}
		if b.Originals != b.Began || b.Served != b.Succeeded || b.Originals+b.Repeats != r.Requests ||
			b.RefusedOriginals > b.Originals || b.RefusedRepeats > b.Repeats || rec.Worked < b.Served {
			t.Errorf("does not add up: %+v, worked %d", b, rec.Worked)
		}
		began[i] = b.Began
	}
	if began[0] != began[1] {
		t.Errorf("%d and %d operations began from one seed", began[0], began[1])
	}
}
