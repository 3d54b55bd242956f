package repeat

import (
	"net/http"
	"time"

	"github.com/comporta/comporta"
)

// word is one slot of the table: all that is known of one fingerprint, in 64
// bits, so that one compare-and-swap changes it as a whole.
//
//	bits 63-37  tag       27 bits of the fingerprint, never 0: a word of 0 is a free slot
//	bits 36-17  tick      when it was last seen or resolved, in quarter seconds, modulo 2^20
//	bits 16-9   attempts  sightings, saturating at 255
//	bits  8-6   fails     answers in a row that said code, saturating at 7
//	bits  5-2   code      the answer that is being counted
//	bits  1-0   state     what became of the latest sighting
type word uint64

const (
	tagBits, tickBits, attemptBits, failBits, codeBits = 27, 20, 8, 3, 4

	codeShift    = 2
	failShift    = codeShift + codeBits
	attemptShift = failShift + failBits
	tickShift    = attemptShift + attemptBits
	tagShift     = tickShift + tickBits

	tickMask    = 1<<tickBits - 1
	maxAttempts = 1<<attemptBits - 1
	maxFails    = 1<<failBits - 1

	tickLength = 250 * time.Millisecond
)

// state is what became of the latest sighting.
type state uint64

const (
	statePending  state = iota
	stateAnswered       // the answer was the one that code names
	stateFailed         // it failed in a way that code does not name
	stateSuccess
)

// code names the answers that are counted towards a hopeless sighting. It
// outlives refusals and timeouts, which say nothing of what the service thinks.
type code uint64

const (
	codeNone     code = 0
	codeDeclared code = 10 // the application said that another try is in vain
	codeFault    code = 11 // from here to codeLeft: 5xx, believed only while others succeed
	codeLeft     code = 15 // no answer: the caller left a safe request within a second
)

// codeOf names the answer of an outcome that is a failure by answer.
func codeOf(o comporta.Outcome) code {
	switch o.Status {
	case http.StatusBadRequest:
		return 1
	case http.StatusNotFound:
		return 2
	case http.StatusMethodNotAllowed:
		return 3
	case http.StatusGone:
		return 4
	case http.StatusRequestEntityTooLarge:
		return 5
	case http.StatusRequestURITooLong:
		return 6
	case http.StatusUnsupportedMediaType:
		return 7
	case http.StatusUnprocessableEntity:
		return 8
	case http.StatusNotImplemented:
		return 9
	}
	if o.Result == comporta.ResultDeterministic {
		return codeDeclared
	}
	switch {
	case o.Status == http.StatusInternalServerError:
		return codeFault
	case o.Status == http.StatusBadGateway:
		return codeFault + 1
	case o.Status == http.StatusServiceUnavailable:
		return codeNone // says of itself that it will pass
	case o.Status == http.StatusGatewayTimeout:
		return codeFault + 2
	case o.Status > http.StatusGatewayTimeout && o.Status < 600:
		return codeFault + 3 // the rare ones are told apart from the common ones, not from each other
	}
	return codeNone
}

// fault reports whether the code is a 5xx, which counts only while other
// requests of the route succeed.
func (c code) fault() bool { return c >= codeFault && c < codeLeft }

func newWord(tag, at uint64) word {
	return word(tag<<tagShift | at<<tickShift | 1<<attemptShift)
}

func (w word) tag() uint64      { return uint64(w) >> tagShift }
func (w word) tick() uint64     { return uint64(w) >> tickShift & tickMask }
func (w word) attempts() uint64 { return uint64(w) >> attemptShift & maxAttempts }
func (w word) fails() uint64    { return uint64(w) >> failShift & maxFails }
func (w word) code() code       { return code(w >> codeShift & (1<<codeBits - 1)) }
func (w word) state() state     { return state(w & 3) }

// moment is an instant and the window that looks back from it, in ticks. What is
// settled counts as so much older than it is: it is forgotten sooner, and first
// when room is needed.
type moment struct{ at, window, settled uint64 }

// rank orders words by age: a window for those of this very tick, one more for
// each tick before it, less for those that lie ahead, because the clock stepped
// back. A free slot is older than anything.
func (m moment) rank(w word) uint64 {
	rank := m.age(w) + m.settled*w.settled()
	if w == 0 {
		rank = 2 * (tickMask + 1)
	}
	return rank
}

func (m moment) age(w word) uint64 { return (m.at + m.window - w.tick()) & tickMask }

// settled is 1 if nobody has reason to ask again for what the word tells of: it
// succeeded, got an answer that another try does not change, or its caller changed
// his mind. It is read off a table of the code and the state, a bit each, because
// the search for a place has no branches.
func (w word) settled() uint64 { return settledWords >> (w & (1<<(codeBits+codeShift) - 1)) & 1 }

// settledWords has four bits for each code, the highest first: success always, an
// answer of the codes that are no fault.
const settledWords = 0xa8888aaaaaaaaaaa

// fresh reports whether the word holds a sighting of the window, or of no more
// than a window ahead.
func (m moment) fresh(w word) bool { return m.rank(w) < 2*m.window }

// newer reports whether w is fresh and tells of later things than o, a word of
// the same fingerprint.
func (m moment) newer(w, o word) bool {
	a, b := m.age(w), m.age(o)
	return m.fresh(w) && (o == 0 || a < b || a == b && w.attempts() > o.attempts())
}

// again is the word after one more sighting; confirmed says that the latest
// answer, a fault, is now held to be the request's own doing.
func (w word) again(at uint64, confirmed bool) word {
	fails := w.fails()
	if confirmed {
		fails = min(fails+1, maxFails)
	}
	return w.with(at, min(w.attempts()+1, maxAttempts), fails, w.code(), statePending)
}

func (w word) with(at, attempts, fails uint64, c code, s state) word {
	return word(w.tag()<<tagShift|at<<tickShift|attempts<<attemptShift|fails<<failShift|uint64(c)<<codeShift) | word(s)
}

// resolved is the word after the outcome of the sighting that was its attempt-th
// became known.
//
// Only the latest sighting tells how things stand, and may correct itself. An
// earlier one that ends late is old news, unless it succeeded: the client has
// its answer then, whatever its other tries do.
func (w word) resolved(at, attempt uint64, end ending) word {
	if end.state == stateSuccess {
		return w.with(at, w.attempts(), 0, codeNone, stateSuccess)
	}
	if w.attempts() != attempt || end.state == statePending {
		return w
	}
	fails, c, s := w.fails(), w.code(), end.state
	switch {
	case s != stateAnswered:
		// A refusal or a timeout: what the service answers stays as counted.
	case c == end.code && w.state() == stateAnswered:
		// The same outcome told twice, at the head and at the end.
	case end.code == codeLeft && c == codeLeft:
		// Leaving once is a change of mind; leaving again is a short timeout.
		s = stateFailed
	case end.code.fault():
		// Counted by the next sighting, when it is known whether others fared better.
		if c != end.code {
			fails, c = 0, end.code
		}
	case c != end.code:
		fails, c = 1, end.code
	default:
		fails = min(fails+1, maxFails)
	}
	return w.with(at, w.attempts(), fails, c, s)
}

// hopeless reports whether the same request would fail the same way again:
// counted as often as limit asks, the current answer included if it is a fault
// that nobody has counted yet.
func (w word) hopeless(limit uint64, healthy bool) bool {
	fails, c := w.fails(), w.code()
	if c == codeLeft {
		return false
	}
	if c.fault() && w.state() == stateAnswered && healthy {
		fails++
	}
	return fails >= limit
}

// ending is an outcome as the table sees it.
type ending struct {
	state state
	code  code
}

// hasty is how soon a caller leaves who changed his mind. Whoever waited longer
// left because it took too long, and will ask again.
const hasty = time.Second

func endingOf(o comporta.Outcome, safe bool) ending {
	switch o.Result {
	case comporta.ResultPending:
		return ending{statePending, codeNone}
	case comporta.ResultSuccess:
		return ending{stateSuccess, codeNone}
	case comporta.ResultFailed, comporta.ResultDeterministic:
		if c := codeOf(o); c != codeNone {
			return ending{stateAnswered, c}
		}
	case comporta.ResultAbandoned:
		// Of an unsafe request nobody knows whether it was carried out: asking
		// again is asking twice, however soon.
		if safe && o.Latency <= hasty {
			return ending{stateAnswered, codeLeft}
		}
	case comporta.ResultRefused, comporta.ResultTimeout, comporta.ResultUnreachable:
	}
	return ending{stateFailed, codeNone}
}

// tickOf is the tick of an instant. It follows the wall clock, so that tables
// need no beginning.
func tickOf(now time.Time) uint64 {
	return uint64(now.UnixNano()/int64(tickLength)) & tickMask // taken modulo 2^20; instants before 1970 only shift the phase
}
