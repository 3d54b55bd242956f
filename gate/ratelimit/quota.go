package ratelimit

import (
	"fmt"
	"sync/atomic"
	"time"
)

// Period is the length of a quota's windows.
type Period uint8

// The periods. Days, weeks (from Monday) and months begin at midnight of the
// quota's time zone, and are as long as that zone makes them.
const (
	PeriodNone Period = iota
	Hour
	Day
	Week
	Month
	numPeriods
)

var periodNames = [numPeriods]string{"none", "hour", "day", "week", "month"}

// String returns the name that ParsePeriod reads.
func (p Period) String() string {
	if p < numPeriods {
		return periodNames[p]
	}
	return "unknown"
}

// length is the length of a period as it is told to clients, who want a number.
func (p Period) length() time.Duration {
	switch p {
	case Hour:
		return time.Hour
	case Day:
		return day
	case Week:
		return 7 * day
	case Month:
		return 30 * day
	default:
		return 0
	}
}

// ParsePeriod reads "hour", "day", "week" or "month".
func ParsePeriod(s string) (Period, error) {
	for p := Hour; p < numPeriods; p++ {
		if periodNames[p] == s {
			return p, nil
		}
	}
	return PeriodNone, fmt.Errorf("ratelimit: period %q is unknown: use hour, day, week or month", s)
}

// Quota is a number of units per calendar window.
//
// Two windows are counted, and the one before weighs as much as of it would
// still lie in a window that ends now. So nobody spends two quotas around
// midnight. The weight assumes that the earlier window was used evenly.
//
// The zero value is no quota at all.
type Quota struct {
	Units  int64 // 1 to 500,000,000
	Period Period
	// Location is the time zone in which windows begin; nil means UTC.
	Location *time.Location
	// Fixed lets the window before count for nothing: the quota comes back whole
	// at the boundary, as contracts put it, and twice the quota may pass around it.
	Fixed bool
}

const maxQuota = 500_000_000

func (q Quota) none() bool { return q.Units == 0 && q.Period == PeriodNone }

func (q Quota) check() error {
	switch {
	case q.none():
		return nil
	case q.Period == PeriodNone || q.Period >= numPeriods:
		return fmt.Errorf("quota of %d has no period: set hour, day, week or month", q.Units)
	case q.Units < 0 || q.Units > maxQuota:
		return fmt.Errorf("quota %d is not between 0 and %d", q.Units, maxQuota)
	}
	return nil
}

// A quota's state is one word: the hour at which it equals absence (20 bits,
// since 2000), what the window before used (14 bits, in units of quotaPlan.unit,
// rounded up) and what this window used (30 bits).
const (
	currentBits  = 30
	previousBits = 14
	deathShift   = currentBits + previousBits
	currentMask  = 1<<currentBits - 1
	previousMask = 1<<previousBits - 1
	hourMicros   = 3_600_000_000
)

// quotaPlan is a Quota made ready. Its clock is the microsecond part of stamps.
type quotaPlan struct {
	Quota
	unit uint64 // what one step of the earlier count stands for
	now  atomic.Pointer[window]
}

func newQuotaPlan(q Quota) *quotaPlan {
	if q.Location == nil {
		q.Location = time.UTC
	}
	return &quotaPlan{Quota: q, unit: (maxDebt*uint64(q.Units) + previousMask - 1) / previousMask}
}

// window is the calendar window of an instant, in microseconds since 2000.
type window struct {
	start, end  uint64
	death       uint64 // hour at which what was counted in it weighs nothing
	deathBefore uint64 // the same of the window before
	nextEnd     uint64
}

// at returns the window of now. It is computed once a window.
func (q *quotaPlan) at(now stamp) *window {
	us := uint64(now >> fracBits)
	if w := q.now.Load(); w != nil && us >= w.start && us < w.end {
		return w
	}
	t := time.UnixMicro(int64(us) + epoch).In(q.Location)
	begin := q.begin(t)
	end := q.following(begin)
	next := q.following(end)
	w := &window{start: sinceEpoch(begin), end: sinceEpoch(end), nextEnd: sinceEpoch(next)}
	w.death, w.deathBefore = hoursUp(w.nextEnd), hoursUp(w.end)
	q.now.Store(w)
	return w
}

func sinceEpoch(t time.Time) uint64 { return uint64(max(t.UnixMicro()-epoch, 0)) }

func hoursUp(us uint64) uint64 { return (us + hourMicros - 1) / hourMicros }

// begin is the start of the window of t.
func (q *quotaPlan) begin(t time.Time) time.Time {
	y, m, d := t.Date()
	switch q.Period {
	case Hour: // by subtraction: the hour that a clock change repeats is two windows
		return t.Add(-time.Duration(t.Minute())*time.Minute - time.Duration(t.Second())*time.Second -
			time.Duration(t.Nanosecond()))
	case Week:
		d -= (int(t.Weekday()) + 6) % 7
	case Month:
		d = 1
	default:
	}
	return time.Date(y, m, d, 0, 0, 0, 0, q.Location)
}

// following is the start of the window after the one that starts at t.
func (q *quotaPlan) following(t time.Time) time.Time {
	y, m, d := t.Date()
	switch q.Period {
	case Hour:
		return t.Add(time.Hour)
	case Week:
		d += 7
	case Month:
		m++
	default:
		d++
	}
	return time.Date(y, m, d, 0, 0, 0, 0, q.Location)
}

// counts reads a word in the light of the window: what was used before it and in
// it, in units. A word from the future (the clock stepped back) counts as of now:
// nothing is given twice.
func (q *quotaPlan) counts(w *window, was uint64) (before, used uint64) {
	death, previous, current := was>>deathShift, was>>currentBits&previousMask, was&currentMask
	switch {
	case death >= w.death:
		return previous * q.unit, current
	case death == w.deathBefore:
		return q.whole(current) * q.unit, 0
	}
	return 0, 0
}

// whole rounds a count up to steps of the earlier count.
func (q *quotaPlan) whole(units uint64) uint64 {
	return min((units+q.unit-1)/q.unit, previousMask)
}

func (q *quotaPlan) word(w *window, before, used uint64) uint64 {
	return w.death<<deathShift | q.whole(before)<<currentBits | min(used, currentMask)
}

// weight is what the window before still counts, rounded up.
func (q *quotaPlan) weight(w *window, us, before uint64) uint64 {
	if q.Fixed || before == 0 {
		return 0
	}
	return mulDivCeil(before, w.end-us, w.end-w.start)
}

func (q *quotaPlan) judge(now stamp, was uint64, n int64) judgement {
	w, us := q.at(now), uint64(now>>fracBits)
	before, used := q.counts(w, was)
	j := judgement{kept: was, after: q.word(w, before, used+uint64(n))}
	if was>>deathShift > w.death {
		j.kept = q.word(w, before, used)
	}
	if q.weight(w, us, before)+used+uint64(n) > uint64(q.Units) && n > 0 {
		j.wait = q.wait(w, us, before, used, uint64(n))
	}
	return j
}

// wait is the time until n units fit, if nobody else takes any.
func (q *quotaPlan) wait(w *window, us, before, used, n uint64) time.Duration {
	limit, length := uint64(q.Units), w.end-w.start
	if used+n < limit {
		// The earlier window must weigh no more than what is left of this one. Where
		// nothing is left it must weigh nothing, and does so in the next window only.
		return micros(w.end - us - mulDivFloor(limit-used-n, length, before))
	}
	at, length := w.end, w.nextEnd-w.end
	if rounded := q.whole(used) * q.unit; !q.Fixed && rounded > limit-n {
		at += length - mulDivFloor(limit-n, length, rounded)
	}
	return micros(at - us)
}

// mulDivFloor returns a·b/c for a ≤ c, through 128 bits.
func mulDivFloor(a, b, c uint64) uint64 {
	q := mulDivCeil(a, b, c)
	if q*c != a*b { // in modular arithmetic: equal only when nothing was rounded
		q--
	}
	return q
}

func (q *quotaPlan) charge(now stamp, was uint64, n int64) uint64 {
	w := q.at(now)
	before, used := q.counts(w, was)
	return q.word(w, before, min(used+uint64(n), max(used, maxDebt*uint64(q.Units))))
}

func (q *quotaPlan) refund(now stamp, was uint64, n int64) uint64 {
	w := q.at(now)
	before, used := q.counts(w, was)
	return q.word(w, before, used-min(used, uint64(n)))
}

func (q *quotaPlan) report(now stamp, was uint64) (remaining int64, next time.Duration) {
	w, us := q.at(now), uint64(now>>fracBits)
	before, used := q.counts(w, was)
	weight := q.weight(w, us, before)
	if weight+used == 0 || q.Units == 0 {
		return q.Units, 0
	}
	left := max(q.Units-int64(weight+used), 0)
	return left, q.wait(w, us, before, used, uint64(left)+1)
}

// convert carries a count over to a quota of another size or period. Counts of
// another period say nothing about this one.
func (q *quotaPlan) convert(old *quotaPlan, now stamp, was uint64) uint64 {
	if old.Period != q.Period || old.Location.String() != q.Location.String() {
		return 0
	}
	w := q.at(now)
	before, used := old.counts(w, was)
	if before == 0 && used == 0 {
		return 0
	}
	return q.word(w, before, used)
}
