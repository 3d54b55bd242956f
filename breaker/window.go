package breaker

import "sync/atomic"

// buckets is how many parts a window has: it slides in tenths.
const buckets = 10

// window counts the calls of the last ticks. Each bucket is one word, so that a
// count and its tick change together and nothing has to sweep:
//
//	tick (32 bits) | failures (16) | calls (16)
//
// Its zero value is empty.
type window struct {
	words [buckets]atomic.Uint64
	// failed says that a call has failed; until then there is nothing to judge. It
	// is set before the failure is counted: of a failure and a success that come at
	// once, one sees both.
	failed atomic.Bool
}

// bucketFull is the most calls that a bucket counts. Then both counts are halved:
// what matters is their ratio, and half of it is still above any Minimum.
const bucketFull = 1<<16 - 1

func pack(tick uint32, calls, failures uint64) uint64 {
	return uint64(tick)<<32 | failures<<16 | calls
}

func unpack(w uint64) (tick uint32, calls, failures uint64) {
	return uint32(w >> 32), w & bucketFull, w >> 16 & bucketFull
}

// add counts a call that ended in a tick, and returns the sums of the window; 0 and
// 0 as long as nothing has failed, which spares most breakers the summing up.
func (w *window) add(tick uint32, failed bool) (calls, failures int) {
	if failed {
		w.failed.Store(true)
	}
	word := &w.words[tick%buckets]
	for {
		old := word.Load()
		t, c, f := unpack(old)
		if t != tick { // a window ago, or from before the clock stepped back
			c, f = 0, 0
		}
		if c == bucketFull {
			c, f = c/2, f/2
		}
		c++
		if failed {
			f++
		}
		if word.CompareAndSwap(old, pack(tick, c, f)) {
			break
		}
	}
	if !w.failed.Load() {
		return 0, 0
	}
	return w.sum(tick)
}

// sum counts the calls of the window that ends with a tick. Ticks a little ahead
// belong to it too: goroutines do not finish in the order in which they read the
// clock. What is further ahead was written before the clock stepped back.
func (w *window) sum(tick uint32) (calls, failures int) {
	for i := range w.words {
		t, c, f := unpack(w.words[i].Load())
		if age := int32(tick - t); age > -buckets && age < buckets {
			calls += int(c)
			failures += int(f)
		}
	}
	return calls, failures
}
