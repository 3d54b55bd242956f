package breaker

import "sync"

// trial is the count of a half-open era: how many calls try, and how many have
// passed. Those in flight and those passed together never exceed the number of
// probes, so that a dependency which is still down meets that many calls and no
// more. A lock suffices: few calls come here, and most of them to be refused.
type trial struct {
	mu     sync.Mutex
	serial uint64
	passed int
	out    []lease // probes in flight, in the order of their begin
}

// lease is the time that a probe has to answer, in Unix nanoseconds.
type lease struct {
	serial uint64
	end    int64
}

// enter gives a probe its serial number. Otherwise it returns how long the
// oldest probe may still take; not above 0 when that one is overdue.
func (t *trial) enter(now int64, probes int, timeout int64) (serial uint64, wait int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.out) > 0 {
		oldest := &t.out[0]
		// A clock that stepped back does not prolong a lease.
		oldest.end = min(oldest.end, now+timeout)
		if wait = oldest.end - now; wait <= 0 {
			return 0, wait
		}
	}
	if t.passed+len(t.out) < probes {
		t.serial++
		t.out = append(t.out, lease{t.serial, now + timeout})
		return t.serial, 0
	}
	if len(t.out) == 0 {
		// All have passed, and whoever told of the last is about to close the
		// breaker. Until then this is a millisecond's matter.
		return 0, 1
	}
	return 0, wait
}

// leave ends a probe and returns how many have passed. It is unknown when it has
// ended before.
func (t *trial) leave(serial uint64, success bool) (passed int, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.out {
		if t.out[i].serial == serial {
			t.out = append(t.out[:i], t.out[i+1:]...)
			if success {
				t.passed++
			}
			return t.passed, true
		}
	}
	return t.passed, false
}
