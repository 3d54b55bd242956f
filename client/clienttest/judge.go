package clienttest

import (
	"fmt"
	"net/http"
	"time"
)

// early is how much before a named instant a call may arrive: clocks are read on
// both sides of a scheduler.
const early = 20 * time.Millisecond

// State is how a run went. The zero value is NotExercised.
type State uint8

// The states.
const (
	NotExercised State = iota // the client made no call that shows anything
	Passed
	Failed
	numStates
)

var stateNames = [numStates]string{"not exercised", "passed", "failed"}

// String returns the state in words.
func (s State) String() string {
	if s >= numStates {
		return fmt.Sprintf("state(%d)", uint8(s))
	}
	return stateNames[s]
}

// Verdict is what a run is worth.
type Verdict struct {
	Scenario    Scenario
	Measurement Measurement
	State       State
	Problems    []string // why it failed
	Notes       []string // what a good client does better, though it is no failure
}

// Judge compares a run with what a good client does.
func (s *Scenario) Judge(m Measurement) Verdict {
	v := Verdict{Scenario: *s, Measurement: m}
	if !s.exercised(&m) {
		return v
	}
	v.problemf(m.Calls > s.Calls, "%d calls, at most %d", m.Calls, s.Calls)
	wait, hasty := m.hasty()
	v.problemf(hasty, "called again %v before the instant that the server named", wait.Round(time.Millisecond))
	if s.Method == http.MethodPost {
		keyless, keys := m.keys()
		v.problemf(keyless > 1 || keyless == 1 && keys > 0, "sent a POST again without an Idempotency-Key: the server may execute both")
		v.problemf(keys > 1, "sent %d keys for one operation: mint the key once, and not for each attempt", keys)
	}
	v.State = Passed
	if len(v.Problems) > 0 {
		v.State = Failed
	}
	v.note(s.reuses && m.Calls > 1 && m.Connections >= m.Calls,
		"a connection for each call: read what failed to its end, and close it")
	v.note(!s.hopes && m.Ended && m.Calls == 1,
		"still waiting at the limit: give the answer back at once when its wait is longer than the caller's")
	return v
}

// exercised reports whether the run can show anything.
func (s *Scenario) exercised(m *Measurement) bool {
	if s.Method == "" || m.Calls > len(m.calls) {
		return m.Calls > 0
	}
	for i := range m.calls {
		if m.calls[i].method == s.Method {
			return true
		}
	}
	return false
}

// hasty returns the most by which a call came before the instant that the answer
// before it named.
func (m *Measurement) hasty() (by time.Duration, found bool) {
	for i := range m.calls {
		if i == 0 || m.calls[i-1].notBefore.IsZero() {
			continue
		}
		if d := m.calls[i-1].notBefore.Sub(m.calls[i].at); d > early {
			by, found = max(by, d), true
		}
	}
	return by, found
}

// keys counts the POSTs without a key, and the different keys of the others.
func (m *Measurement) keys() (keyless, keys int) {
	seen := map[string]bool{}
	for i := range m.calls {
		switch c := &m.calls[i]; {
		case c.method != http.MethodPost:
		case c.key == "":
			keyless++
		default:
			seen[c.key] = true
		}
	}
	return keyless, len(seen)
}

func (v *Verdict) problemf(is bool, format string, args ...any) {
	if is {
		v.Problems = append(v.Problems, fmt.Sprintf(format, args...))
	}
}

func (v *Verdict) note(is bool, text string) {
	if is {
		v.Notes = append(v.Notes, text)
	}
}
