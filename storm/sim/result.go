package sim

import (
	"math"
	"time"
)

// binLength is how finely a run is recorded.
const (
	binLength = instant(10 * time.Second)
	perMinute = int(instant(time.Minute) / binLength)
	window    = 5 * perMinute // over which the success of fresh users is judged
)

// freshWithin is how soon an operation must have succeeded for its user to call
// the service up; enough is the share of them that makes it up.
const (
	freshWithin = instant(20 * time.Second)
	enough      = 0.99
)

// freshUntil is until when fresh users are judged, from the beginning of the outage.
const freshUntil = 190 * time.Minute

// bin is what happened in one length of time.
type bin struct {
	originals, repeats, returns uint32 // attempts; returns are repeats at an instant that was given
	refused, served             uint32
	begun, fresh                uint32 // operations begun then, and those that succeeded soon
	work, useful                uint32
}

func (b *bin) add(o *bin) {
	b.originals += o.originals
	b.repeats += o.repeats
	b.returns += o.returns
	b.refused += o.refused
	b.served += o.served
	b.begun += o.begun
	b.fresh += o.fresh
	b.work += o.work
	b.useful += o.useful
}

func (b *bin) attempts() uint32 { return b.originals + b.repeats + b.returns }

// share of fresh users that were served; nobody asked is as good as all.
func (b *bin) share() float64 {
	if b.begun == 0 {
		return 1
	}
	return ratio(uint64(b.fresh), uint64(b.begun))
}

func (e *engine) bin() *bin { return &e.bins[min(int(e.now/binLength), len(e.bins)-1)] }

// sum adds up the bins [from, to).
func (e *engine) sum(from, to int) (b bin) {
	for i := max(from, 0); i < min(to, len(e.bins)-1); i++ {
		b.add(&e.bins[i])
	}
	return b
}

// tally is what is counted over the whole run.
type tally struct {
	attempts, done, lost, work, useful, duplicates uint64
	begun, barred                                  [maxClasses]uint64
	most                                           [maxClasses]uint16 // attempts at one operation
	drained                                        []instant
}

// Result is a run in a handful of numbers. Shares are fractions.
type Result struct {
	Defence string `json:"defence"`
	Seed    uint64 `json:"seed"`
	// Recovered says whether fresh users were served for good in the time observed.
	Recovered bool `json:"recovered"`
	// RecoveryMin is the minutes from the beginning of the outage (14:00) until at
	// least 99 % of the fresh users succeed within 20 s in every five minutes that
	// follow; the time observed without recovery.
	RecoveryMin float64 `json:"recovery_min"`
	// PeakX is the most that was asked within a minute, in multiples of the demand,
	// and RepeatsAtPeak the share of repeats in that minute.
	PeakX         float64 `json:"peak_x"`
	RepeatsAtPeak float64 `json:"repeats_at_peak"`
	// FreshOK is the share of operations begun after the outage, up to 17:10, that
	// succeeded within 20 s; FreshWorst5 that of its worst five minutes, FreshBefore
	// that before the outage.
	FreshOK     float64 `json:"fresh_ok"`
	FreshWorst5 float64 `json:"fresh_worst5"`
	FreshBefore float64 `json:"fresh_before"`
	// Waste is the share of the service's work that helped nobody.
	Waste float64 `json:"waste"`
	// Lost is the share of all operations that were given up.
	Lost float64 `json:"lost"`
	// Backlog95Min is the minutes after the outage until 95 % of what was wanted
	// during it, and was served in the end, was served.
	Backlog95Min float64 `json:"backlog95_min"`
	// Duplicates is how many executions of an operation that was carried out already
	// stand behind each one done.
	Duplicates float64 `json:"duplicates"`
	// AttemptsPerOp is how many attempts stand behind an operation, served or not.
	AttemptsPerOp float64 `json:"attempts_per_op"`
	// MaxAttempts is the most attempts at one operation that is over, by class.
	MaxAttempts map[string]int `json:"max_attempts"`
	// BarredShare is the share of the operations of the class most turned away for
	// good that were.
	BarredShare float64 `json:"barred_share"`

	Events uint64  `json:"events"`
	WallS  float64 `json:"wall_s"`

	Minutes []Minute `json:"-"`
}

// Minute is a minute of a run: attempts in multiples of the demand, and shares.
type Minute struct {
	At                          int // minutes after the outage began
	Originals, Repeats, Returns float64
	Refused                     float64
	Fresh, Waste                float64
	Judged                      bool // Fresh is known: its users had their 20 s
}

// Load is what was asked.
func (m *Minute) Load() float64 { return m.Originals + m.Repeats + m.Returns }

func (e *engine) result(d *Defence, seed uint64) *Result {
	t := &e.tally
	r := &Result{Defence: d.Name, Seed: seed, Events: e.events, MaxAttempts: map[string]int{}}
	r.Waste = ratio(t.work-min(t.useful, t.work), t.work)
	r.Lost = ratio(t.lost, e.count)
	r.AttemptsPerOp = ratio(t.attempts, e.count)
	r.Duplicates = ratio(t.duplicates, t.done)
	for i := range e.s.Classes {
		r.BarredShare = max(r.BarredShare, ratio(t.barred[i], t.begun[i]))
		r.MaxAttempts[e.s.Classes[i].Name] = int(t.most[i])
	}
	if n := len(t.drained); n > 0 {
		r.Backlog95Min = round(time.Duration(t.drained[(n-1)*95/100] - e.outageEnd).Minutes())
	}
	e.peak(r)
	e.judge(r)
	e.minutes(r)
	e.checkResult(r)
	return r
}

// peak finds the busiest minute.
func (e *engine) peak(r *Result) {
	var most bin
	for i := range len(e.bins) - perMinute {
		if b := e.sum(i, i+perMinute); b.attempts() > most.attempts() {
			most = b
		}
	}
	r.PeakX = round(float64(most.attempts()) / 60 / e.s.Demand)
	r.RepeatsAtPeak = ratio(uint64(most.repeats+most.returns), uint64(most.attempts()))
}

// judge looks at the fresh users.
func (e *engine) judge(r *Result) {
	out, back := int(e.outageAt/binLength), int((e.outageEnd+binLength-1)/binLength)
	judged := len(e.bins) - 1 - int(freshWithin/binLength)
	until := min(judged, out+int(instant(freshUntil)/binLength))
	before, after := e.sum(perMinute, out-int(freshWithin/binLength)), e.sum(back, until)
	r.FreshBefore, r.FreshOK, r.FreshWorst5 = ratio(uint64(before.fresh), uint64(before.begun)), after.share(), 1
	for i := back; i+window <= until; i++ {
		b := e.sum(i, i+window)
		r.FreshWorst5 = min(r.FreshWorst5, b.share())
	}
	from := judged - window
	good := func() bool { b := e.sum(from, from+window); return b.share() >= enough }
	r.Recovered = good()
	r.RecoveryMin = time.Duration(e.end - e.outageAt).Minutes()
	if r.Recovered {
		for from >= back && good() {
			from--
		}
		r.RecoveryMin = round(time.Duration(instant(from+1)*binLength - e.outageAt).Minutes())
	}
}

func (e *engine) minutes(r *Result) {
	judged := len(e.bins) - 1 - int(freshWithin/binLength)
	for i := 0; i+perMinute < len(e.bins); i += perMinute {
		b := e.sum(i, i+perMinute)
		x := 60 * e.s.Demand
		r.Minutes = append(r.Minutes, Minute{
			At:        i/perMinute - int(e.s.Warmup/time.Minute),
			Originals: float64(b.originals) / x, Repeats: float64(b.repeats) / x, Returns: float64(b.returns) / x,
			Refused: float64(b.refused) / x, Fresh: b.share(), Judged: i+perMinute <= judged,
			Waste: 1 - ratio(uint64(min(b.useful, b.work)), uint64(max(b.work, 1))),
		})
	}
}

// Bound is the physical bound of a scenario.
type Bound struct {
	// Mu is the operations a second that the service can do, Lambda those that are
	// asked for anew when the outage ends.
	Mu     float64 `json:"mu"`
	Lambda float64 `json:"lambda"`
	// Backlog is the operations that wait when the outage ends, and BacklogMin how
	// long they take at least, in minutes: Backlog / (Mu - Lambda).
	Backlog    float64 `json:"backlog"`
	BacklogMin float64 `json:"backlog_min"`
	// FreshMin is when fresh users can be served again at the earliest, in minutes
	// after the outage began.
	FreshMin float64 `json:"fresh_min"`
}

// BoundOf returns the physical bound of a scenario.
func BoundOf(s *Scenario) Bound {
	p := newPopulation(s)
	b := Bound{Lambda: s.Demand, FreshMin: s.Outage.Minutes()}
	b.Mu = float64(s.slots()) / s.Service.Latency.Seconds()
	// Parked operations lose patience as an exponential; their age when the outage
	// ends is uniform over its length.
	kept := 1.0
	if x := s.Outage.Seconds() / max(p.persistence.Seconds(), 1); x > 0 {
		kept = (1 - math.Exp(-x)) / x
	}
	b.Backlog = s.Demand * s.Outage.Seconds() * s.Parking.Share * kept
	if b.Mu > b.Lambda {
		b.BacklogMin = round(b.Backlog / (b.Mu - b.Lambda) / 60)
	}
	b.Mu, b.Backlog = round(b.Mu), round(b.Backlog)
	return b
}

func ratio(part, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return math.Round(float64(part)/float64(whole)*1e4) / 1e4
}

func round(x float64) float64 { return math.Round(x*100) / 100 }
