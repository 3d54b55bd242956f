package live

import (
	"sync/atomic"
	"time"

	"github.com/comporta/comporta/storm"
)

// Interval is the length of a bucket.
const Interval = 250 * time.Millisecond

// Bucket counts what was sent, and what began, within one Interval. What became
// of it later is counted here too, so that the parts add up to the whole.
type Bucket struct {
	Originals int // first attempts
	Repeats   int // later attempts
	// RefusedOriginals and RefusedRepeats are those that were turned away
	// unworked: 503 or 429.
	RefusedOriginals, RefusedRepeats int
	Succeeded                        int // attempts that brought their client a 200
	Began                            int // operations that began
	Fresh                            int // of those, succeeded within Scenario.FreshWithin
	Served                           int // of those, succeeded at all
}

// Requests returns the number of attempts.
func (b *Bucket) Requests() int { return b.Originals + b.Repeats }

// Refused returns how many attempts were turned away.
func (b *Bucket) Refused() int { return b.RefusedOriginals + b.RefusedRepeats }

func (b *Bucket) add(o *Bucket) {
	b.Originals += o.Originals
	b.Repeats += o.Repeats
	b.RefusedOriginals += o.RefusedOriginals
	b.RefusedRepeats += o.RefusedRepeats
	b.Succeeded += o.Succeeded
	b.Began += o.Began
	b.Fresh += o.Fresh
	b.Served += o.Served
}

// Recording is what was seen of a storm, so far or as a whole.
type Recording struct {
	Scenario storm.Scenario
	// Elapsed is how long the storm has run. Operations that began later than
	// Scenario.FreshWithin before may still succeed.
	Elapsed time.Duration
	// Buckets covers the whole length of the scenario, one an Interval.
	Buckets []Bucket
	// Worked is how many operations the service worked on; set by Incident.
	Worked int
	// Capped says that the storm reached MaxRequests and ended early.
	Capped bool
}

// Seconds sums the recording up by the second; what is left of a last one counts as
// one.
func (rec *Recording) Seconds() []Bucket {
	const n = int(time.Second / Interval)
	seconds := make([]Bucket, (len(rec.Buckets)+n-1)/n)
	for i := range rec.Buckets {
		seconds[i/n].add(&rec.Buckets[i])
	}
	return seconds
}

// recorder counts while a storm runs.
type recorder struct {
	scenario storm.Scenario
	start    time.Time
	buckets  []counts
}

type counts struct {
	sent, refused        [2]atomic.Int64 // originals, repeats
	succeeded            atomic.Int64
	began, fresh, served atomic.Int64
}

func newRecorder(s storm.Scenario, start time.Time) *recorder {
	return &recorder{scenario: s, start: start, buckets: make([]counts, int((s.Length+Interval-1)/Interval))}
}

// at finds a moment's bucket. What comes before the first or after the last
// counts there, so that nothing is lost.
func (r *recorder) at(t time.Time) *counts {
	i := int(t.Sub(r.start) / Interval)
	return &r.buckets[min(max(i, 0), len(r.buckets)-1)]
}

func index(repeat bool) int {
	if repeat {
		return 1
	}
	return 0
}

func (r *recorder) sent(t time.Time, repeat bool)    { r.at(t).sent[index(repeat)].Add(1) }
func (r *recorder) refused(t time.Time, repeat bool) { r.at(t).refused[index(repeat)].Add(1) }
func (r *recorder) began(t time.Time)                { r.at(t).began.Add(1) }

// succeeded counts an attempt of an operation that began at began.
func (r *recorder) succeeded(began, sent, now time.Time) {
	r.at(sent).succeeded.Add(1)
	b := r.at(began)
	b.served.Add(1)
	if now.Sub(began) <= r.scenario.FreshWithin {
		b.fresh.Add(1)
	}
}

// recordingAt copies the counts.
func (r *recorder) recordingAt(now time.Time) *Recording {
	rec := &Recording{Scenario: r.scenario, Elapsed: now.Sub(r.start), Buckets: make([]Bucket, len(r.buckets))}
	for i := range r.buckets {
		c := &r.buckets[i]
		rec.Buckets[i] = Bucket{
			Originals: int(c.sent[0].Load()), Repeats: int(c.sent[1].Load()),
			RefusedOriginals: int(c.refused[0].Load()), RefusedRepeats: int(c.refused[1].Load()),
			Succeeded: int(c.succeeded.Load()), Began: int(c.began.Load()), Fresh: int(c.fresh.Load()), Served: int(c.served.Load()),
		}
	}
	return rec
}
