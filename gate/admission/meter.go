package admission

import (
	"math"
	"sync/atomic"
	"time"
)

// meter measures how fast permits come back: departures per second, and how long
// a permit is held. A departure costs one atomic addition; every 100 ms one of
// them folds the sums into averages with a time constant of one second.
type meter struct {
	// sums holds, since the last fold, the number of departures (lower 24 bits)
	// and their weight × latency in units of 10 µs.
	sums   atomic.Uint64
	foldAt atomic.Int64  // Unix ns of the last fold; 0 before the first
	perSec atomic.Uint64 // float64 bits: departures per second
	held   atomic.Uint64 // float64 bits: weight × seconds a departure had taken; 0 = unknown
}

const (
	foldEvery = 100 * time.Millisecond
	meterUnit = 10 * time.Microsecond
	countBits = 24
	countMask = 1<<countBits - 1
	// maxTaken bounds one departure (almost three minutes of weight 1) and
	// maxCount their number, so that the sum stays within its 40 bits.
	maxTaken = 1 << 24
	maxCount = 1 << 16
)

// departAt counts a departure. One of unknown latency would make the others look
// faster than they are, and is left out.
func (m *meter) departAt(now int64, weight int, latency time.Duration) {
	if latency <= 0 {
		return
	}
	taken := min((latency+meterUnit/2)/meterUnit, maxTaken) * time.Duration(weight)
	taken = min(taken, maxTaken)
	sums := m.sums.Add(uint64(taken)<<countBits | 1)
	if sums&countMask >= maxCount {
		m.fold(now)
	} else {
		m.lookAt(now)
	}
}

// lookAt folds what is due, so that the averages fall when nothing departs. A
// clock that stepped back begins a new period: the old one would not end before
// the clock has caught up.
func (m *meter) lookAt(now int64) {
	if since := now - m.foldAt.Load(); since >= int64(foldEvery) || since < 0 {
		m.fold(now)
	}
}

func (m *meter) fold(now int64) {
	last := m.foldAt.Load()
	if !m.foldAt.CompareAndSwap(last, now) {
		return // another departure folds
	}
	sums := m.sums.Swap(0)
	period := time.Duration(now - last)
	if last == 0 || period <= 0 {
		return // there is no period to divide by; these few departures are lost to the averages
	}
	n := float64(sums & countMask)
	a := 1 - math.Exp(-period.Seconds())
	rate := m.rate()
	m.perSec.Store(math.Float64bits(rate + a*(n/period.Seconds()-rate)))
	if n == 0 {
		return
	}
	taken := float64(sums>>countBits) * meterUnit.Seconds() / n
	if was := math.Float64frombits(m.held.Load()); was > 0 {
		taken = was + a*(taken-was)
	}
	m.held.Store(math.Float64bits(taken))
}

// rate returns departures per second.
func (m *meter) rate() float64 { return math.Float64frombits(m.perSec.Load()) }

// taken returns how long a departure of weight 1 has taken, on average; 0 before the
// first.
func (m *meter) taken() time.Duration {
	return time.Duration(math.Float64frombits(m.held.Load()) * float64(time.Second))
}

// drain returns how many departures per second a full house would have: Little's
// law, the limit over the mean latency. The measured rate is not that: before a
// burst it only says how little was asked.
func (m *meter) drain(limit int) float64 {
	held := math.Float64frombits(m.held.Load())
	if held <= 0 {
		return 0
	}
	return float64(limit) / held
}
