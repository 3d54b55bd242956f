package seek

import "time"

// Mode says what a [Limit] is doing.
type Mode uint8

// The modes.
const (
	ModeFree Mode = iota // not felt, or growing
	ModeTest             // halved, to see whether throughput follows
	ModeHigh             // dithering, upper half
	ModeLow              // dithering, lower half
	ModeOut              // most calls do not come back
	numModes
)

var modeNames = [numModes]string{"free", "test", "high", "low", "out"}

func (m Mode) String() string {
	if m >= numModes {
		return "unknown"
	}
	return modeNames[m]
}

// Verdict is what an experiment found.
type Verdict uint8

// The verdicts.
const (
	VerdictOurs    Verdict = iota // the latency was a queue in front of the service: the limit went to the knee
	VerdictTheirs                 // the service is slower, without a queue: the limit was restored, the baseline raised
	VerdictUnclear                // concurrency did not fall: nothing was learned
	NumVerdicts                   // how many there are
)

var verdictNames = [NumVerdicts]string{"ours", "theirs", "unclear"}

func (v Verdict) String() string {
	if v >= NumVerdicts {
		return "unknown"
	}
	return verdictNames[v]
}

// Snapshot is the inside of a [Limit] at one instant, for metrics.
type Snapshot struct {
	Limit      int
	Mode       Mode
	Frozen     bool
	Baseline   time.Duration       // latency without a queue; 0 is unknown
	Ratio      float64             // latest latency / baseline
	Elasticity float64             // mean share of a change of concurrency that throughput follows, -1 to 1
	Tests      [NumVerdicts]uint64 // experiments by verdict
	Decisions  uint64              // windows that were judged
	Skipped    uint64              // windows that held a pause and were not
	// Raised counts the verdicts that raised the baseline. More than five in ten
	// minutes mean a service shared with others, or a wrong Max.
	Raised uint64
}

// Snapshot returns what the limit knows.
func (l *Limit) Snapshot() Snapshot {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &l.seeker
	return Snapshot{
		Limit: int(s.level), Mode: s.mode, Frozen: s.frozen,
		Baseline: seconds(s.baseline), Ratio: s.ratio, Elasticity: s.ebar,
		Tests: s.tests, Decisions: s.decisions, Skipped: s.skipped, Raised: s.raised,
	}
}

// State is what is worth keeping over a restart. The zero value is nothing.
type State struct {
	Limit    int           `json:"limit"`
	Baseline time.Duration `json:"baseline_ns"`
}

// State returns what is worth keeping. During an outage that is the limit from
// before it.
func (l *Limit) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &l.seeker
	level := s.level
	switch s.mode {
	case ModeOut:
		level = s.good
	case ModeTest:
		level = s.prev
	case ModeHigh, ModeLow:
		level = s.base
	}
	return State{Limit: int(s.bounded(level)), Baseline: seconds(s.baseline)}
}

// Restore takes over the state of an earlier life, before the first event. The
// limit is at most four times the initial one, since the service may have
// changed meanwhile, and grows from there as at a first start. Values that make
// no sense are left out, so a damaged file does no harm.
func (l *Limit) Restore(st State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &l.seeker
	if st.Limit > 0 {
		s.level = s.bounded(min(float64(st.Limit), 4*float64(s.conf.Initial)))
	}
	if st.Baseline > 0 && st.Baseline <= time.Hour {
		s.baseline, s.known = st.Baseline.Seconds(), true
		s.seen, s.calmSeen = max(s.seen, childhood), max(s.calmSeen, warmth)
	}
	l.publish()
}
