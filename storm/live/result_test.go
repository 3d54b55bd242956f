package live

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/comporta/comporta/storm"
)

// recorded returns a recording of 12 s at 40 op/s: an outage from 2 s to 4 s, ten
// users an interval, served where up says so.
func recorded(up func(at time.Duration) bool) *Recording {
	s := storm.Incident().WithDemand(40)
	s.Length, s.OutageAt, s.Outage = 12*time.Second, 2*time.Second, 2*time.Second
	rec := &Recording{Scenario: s, Elapsed: s.Length, Buckets: make([]Bucket, 48)}
	for i := range rec.Buckets {
		b := &rec.Buckets[i]
		b.Began, b.Originals = 10, 10
		if up(time.Duration(i) * Interval) {
			b.Fresh, b.Served, b.Succeeded = 10, 10, 10
		}
	}
	return rec
}

func before(d time.Duration) func(time.Duration) bool {
	return func(at time.Duration) bool { return at < 2*time.Second || at >= d }
}

func TestRecovery(t *testing.T) {
	for _, test := range []struct {
		name      string
		up        func(time.Duration) bool
		recovery  float64
		recovered Recovered
	}{
		{"at once", before(4 * time.Second), 0, true},
		{"never failed", func(time.Duration) bool { return true }, 0, true},
		{"later", before(7 * time.Second), 3, true},
		// Judged are those who began before 10 s; the window needs two of these.
		{"just in time", before(8 * time.Second), 4, true},
		{"too late to tell", before(9 * time.Second), 6, false},
		{"never", before(time.Hour), 6, false},
		{"relapse", func(at time.Duration) bool {
			return at < 2*time.Second || at >= 4*time.Second && at < 6*time.Second || at >= 7*time.Second
		}, 3, true},
		{"last users unjudged", func(at time.Duration) bool {
			return at < 2*time.Second || at >= 5*time.Second && at < 10*time.Second
		}, 1, true},
	} {
		rec := recorded(test.up)
		r := rec.Result()
		if r.RecoveryS != test.recovery || r.Recovered != test.recovered {
			t.Errorf("%s: %v s, %v; want %v s, %v", test.name, r.RecoveryS, r.Recovered, test.recovery, test.recovered)
		}
	}
}

// A storm that ended early has seen what it has seen.
func TestRecoveryOfACutStorm(t *testing.T) {
	rec := recorded(before(4 * time.Second))
	rec.Elapsed = 5 * time.Second
	if r := rec.Result(); r.Recovered || r.RecoveryS != 0 {
		t.Errorf("%+v", r)
	}
}

func TestResultCounts(t *testing.T) {
	rec := recorded(before(time.Hour)) // 80 operations succeed
	rec.Worked = 400
	for i := range 4 {
		rec.Buckets[20+i].Repeats = 30
	}
	r := rec.Result()
	want := Result{
		RecoveryS: 6, PeakX: 4, RepeatsAtPeak: 0.75, Wasted: 0.8, RequestsPerSuccess: 7.5, Requests: 600,
		Before: 1, Served: 80, Began: 480,
	}
	if r != want {
		t.Errorf("%+v\nwant %+v", r, want)
	}
	if r := (&Recording{Scenario: storm.Incident(), Buckets: make([]Bucket, 40)}).Result(); r.RequestsPerSuccess != 0 || r.PeakX != 0 {
		t.Errorf("nothing: %+v", r) // and no NaN
	}
}

// The names are the contract of `comporta demo -json`.
func TestResultAsJSON(t *testing.T) {
	for recovered, want := range map[Recovered]string{
		true:  `{"recovery_s":1.5,"peak_x":2,"repeats_at_peak":0,"wasted":0,"requests_per_success":0,"requests":0}`,
		false: `{"recovery_s":1.5,"recovered":false,"peak_x":2,"repeats_at_peak":0,"wasted":0,"requests_per_success":0,"requests":0}`,
	} {
		got, err := json.Marshal(Result{RecoveryS: 1.5, Recovered: recovered, PeakX: 2, Served: 9})
		if err != nil || string(got) != want {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	}
}

func TestBeats(t *testing.T) {
	bare := Result{RecoveryS: 10, PeakX: 9, RequestsPerSuccess: 30}
	good := Result{RecoveryS: 4.9, Recovered: true, PeakX: 9, RequestsPerSuccess: 29}
	if !good.Beats(&bare) {
		t.Error("good does not beat bare")
	}
	for name, spoil := range map[string]func(*Result){
		"not recovered": func(r *Result) { r.Recovered = false },
		"half the time": func(r *Result) { r.RecoveryS = 5 },
		"higher peak":   func(r *Result) { r.PeakX = 9.01 },
		"as many":       func(r *Result) { r.RequestsPerSuccess = 30 },
	} {
		r := good
		if spoil(&r); r.Beats(&bare) {
			t.Errorf("%s: beats bare", name)
		}
	}
}

func TestPaceIsAHardBound(t *testing.T) {
	now := time.Unix(1000, 0)
	p := pace{left: 2 * MaxRate, next: now}
	sent := 0 // that may go within the second
	for p.left > 0 {
		if wait, ok := p.takeAt(now); ok && wait < time.Second {
			sent++
		}
	}
	if sent > MaxRate {
		t.Errorf("%d requests in a second", sent)
	}
	if _, ok := p.takeAt(now.Add(time.Hour)); ok {
		t.Error("more than was left")
	}
	// After a pause a little is caught up, not all.
	p = pace{left: MaxRequests, next: now}
	later := now.Add(time.Minute)
	sent = 0
	for {
		if wait, _ := p.takeAt(later); wait > 0 {
			break
		}
		sent++
	}
	if most := int(catchUp / spacing); sent > most {
		t.Errorf("%d requests at once after a pause, want at most %d", sent, most)
	}
	// A clock that steps back makes nobody wait for long enough to matter twice.
	if wait, ok := p.takeAt(later.Add(-time.Second)); !ok || wait > time.Second+catchUp {
		t.Errorf("%v, %v", wait, ok)
	}
}

func TestPaceEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := pace{left: 1, next: time.Now().Add(time.Hour)}
	if p.wait(ctx) {
		t.Error("waited for an hour, or not at all")
	}
}
