package ratelimit

import (
	"math"
	"time"
)

// stamp is a point in time, or a span of it: microseconds since the year 2000
// above fracBits, and below them a count of ticks, of which a plan's scale make
// a microsecond. Stamps of one plan compare as numbers; those of different plans
// do so to the microsecond, which is all that eviction asks.
type stamp uint64

const (
	fracBits = 11
	fracMask = 1<<fracBits - 1
	// maxScale leaves one bit for the carry of an addition.
	maxScale = 1 << (fracBits - 1)

	epoch = 946_684_800_000_000 // 2000-01-01 in microseconds since 1970
	// maxMicros is the last instant that is told apart, in the year 2142. It and
	// the longest debt fit a stamp together.
	maxMicros = 1 << 52
	// maxWindow bounds the time to fill, so that no sum overflows.
	maxWindow  = 34 * 365 * day
	maxHorizon = stamp(1<<51) << fracBits
)

// stampOf reads a clock; instants beyond the range count as its ends.
func stampOf(now time.Time) stamp {
	us := now.UnixMicro() - epoch
	return stamp(min(max(us, 0), maxMicros)) << fracBits
}

// micros is a duration of us microseconds; it saturates.
func micros(us uint64) time.Duration {
	if us > math.MaxInt64/1000 {
		return math.MaxInt64
	}
	return time.Duration(us) * time.Microsecond
}

// radix does the arithmetic of the stamps of one scale, in ticks a microsecond.
type radix uint64

func (x radix) pack(ticks uint64) stamp {
	if x == 1 {
		return stamp(ticks) << fracBits
	}
	return stamp(ticks/uint64(x))<<fracBits | stamp(ticks%uint64(x))
}

func (x radix) ticks(s stamp) uint64 { return uint64(s>>fracBits)*uint64(x) + uint64(s&fracMask) }

func (x radix) add(a, b stamp) stamp {
	sum := a + b
	if sum&fracMask >= stamp(x) {
		sum += 1<<fracBits - stamp(x)
	}
	return sum
}

// span is the duration of ticks, rounded up: who waits that long is not early.
func (x radix) span(ticks uint64) time.Duration {
	return micros((ticks + uint64(x) - 1) / uint64(x))
}
