package live

import (
	"math"
	"time"
)

// enough is the share of users that must succeed for the service to be up.
const enough = 0.99

// Result is a storm in a handful of numbers.
type Result struct {
	// RecoveryS is how many seconds after the end of the outage it took until
	// fresh users succeeded, 99 % of them in every window, for good. Without
	// recovery it is the whole time that was observed.
	RecoveryS float64   `json:"recovery_s"`
	Recovered Recovered `json:"recovered,omitzero"`
	// PeakX is the most that was asked within a second, in multiples of the
	// normal demand.
	PeakX float64 `json:"peak_x"`
	// RepeatsAtPeak is the share of repeats in that second.
	RepeatsAtPeak float64 `json:"repeats_at_peak"`
	// Wasted is the share of the service's work that brought nobody a success.
	Wasted float64 `json:"wasted"`
	// RequestsPerSuccess is how many requests stand behind one success; all
	// requests if there was none.
	RequestsPerSuccess float64 `json:"requests_per_success"`
	Requests           int     `json:"requests"`

	// Before is the share of users that were served before the outage. Below
	// 99 % the machine itself was too slow, and the rest says little.
	Before float64 `json:"-"`
	// Served of Began operations succeeded in the end.
	Served, Began int `json:"-"`
}

// Recovered says whether the service recovered while it was observed. JSON
// mentions it only when it did not.
type Recovered bool

// IsZero makes JSON leave out what goes without saying.
func (r Recovered) IsZero() bool { return bool(r) }

// Beats reports whether a defence was worth it: r, with it, recovered in less
// than half the time, peaked no higher and needed fewer requests for a success
// than bare.
func (r *Result) Beats(bare *Result) bool {
	return bool(r.Recovered) && r.RecoveryS < bare.RecoveryS/2 &&
		r.PeakX <= bare.PeakX && r.RequestsPerSuccess < bare.RequestsPerSuccess
}

// Result sums up the recording.
func (rec *Recording) Result() Result {
	var all Bucket
	for i := range rec.Buckets {
		all.add(&rec.Buckets[i])
	}
	peak := rec.peak()
	r := Result{
		PeakX:              round(float64(peak.Requests()) / rec.Scenario.Demand),
		RepeatsAtPeak:      round(float64(peak.Repeats) / math.Max(float64(peak.Requests()), 1)),
		RequestsPerSuccess: round(float64(all.Requests()) / math.Max(float64(all.Succeeded), 1)),
		Requests:           all.Requests(),
		Served:             all.Served,
		Began:              all.Began,
		Before:             rec.before(),
	}
	if rec.Worked > 0 {
		r.Wasted = round(math.Max(1-float64(all.Succeeded)/float64(rec.Worked), 0))
	}
	recovery, ok := rec.recovery()
	r.RecoveryS, r.Recovered = round(recovery.Seconds()), Recovered(ok)
	return r
}

func round(x float64) float64 { return math.Round(x*100) / 100 }

// before judges the users whose answer was due before the outage.
func (rec *Recording) before() float64 {
	var sum Bucket
	for i := range max(int((rec.Scenario.OutageAt-4*rec.Scenario.Service.Latency)/Interval), 1) {
		sum.add(&rec.Buckets[i])
	}
	return float64(sum.Fresh) / math.Max(float64(sum.Began), 1)
}

// peak returns the busiest second. A second evens out what a loaded machine does
// to single buckets.
func (rec *Recording) peak() (most Bucket) {
	for from := range rec.Buckets {
		if sum, ok := rec.sum(from, time.Second); ok && sum.Requests() > most.Requests() {
			most = sum
		}
	}
	return most
}

// sum adds up the buckets of one length of time; false if the recording ends before.
func (rec *Recording) sum(from int, length time.Duration) (sum Bucket, ok bool) {
	n := int((length + Interval - 1) / Interval)
	if from+n > len(rec.Buckets) {
		return sum, false
	}
	for i := from; i < from+n; i++ {
		sum.add(&rec.Buckets[i])
	}
	return sum, true
}

// recovery finds the first moment after the outage from which on no window has
// less than enough of its users succeed. Operations that began too late to have
// had their chance are not judged.
func (rec *Recording) recovery() (after time.Duration, ok bool) {
	s := &rec.Scenario
	end := s.OutageEnd()
	judged := int((min(rec.Elapsed, s.Length) - s.FreshWithin) / Interval) // buckets
	window := int((s.Window + Interval - 1) / Interval)
	first := int((end + Interval - 1) / Interval)
	observed := max(time.Duration(judged)*Interval-end, 0)
	from := judged - window
	if from < first {
		return observed, false
	}
	for ; from >= first; from-- {
		sum, _ := rec.sum(from, s.Window)
		if float64(sum.Fresh) < enough*float64(sum.Began) {
			break
		}
	}
	if from == judged-window {
		return observed, false
	}
	return max(time.Duration(from+1)*Interval-end, 0), true
}
