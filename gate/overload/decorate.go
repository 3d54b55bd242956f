package overload

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/internal/retryafter"
)

// Verdict says whether an answer invites its client to repeat the request.
type Verdict uint8

// The verdicts.
const (
	Unsaid Verdict = iota // nothing was said either way
	Again                 // a repeat may help
	Stop                  // a repeat cannot help
)

var verdictNames = [...]string{"unsaid", "again", "stop"}

func (v Verdict) String() string {
	if int(v) < len(verdictNames) {
		return verdictNames[v]
	}
	return "unknown"
}

// Decoration is what the gate knows about an answer of the service's own.
type Decoration struct {
	// Now measures a Retry-After that is a date, where the answer has no Date.
	Now time.Time
	// Hopeless marks an answer that this request has got before, several times,
	// while others succeeded.
	Hopeless bool
	// Body is the whole body if it was held back (see Peekable), else nil.
	Body []byte
	// Slot books the instant of return: not earlier than atLeast from now, which
	// is what the service itself asked for (0: nothing). It is called at most
	// once, and only for an answer that invites a repeat; nil adds no instant.
	Slot func(atLeast time.Duration) (wait time.Duration, ticket []byte)
}

// Decorate adds to the header of a service's answer what the contract owes its
// client, and returns what the answer now says about repeating. Call it for
// every answer, whatever its status, before the header goes out; for a gRPC call
// whose status trails, call it for the trailer.
//
// Comporta headers of the service are removed: they tell the gateway's own
// answers apart. A failure that every repeat would meet again says so and names
// no time. A 429 or 503 (gRPC: UNAVAILABLE, RESOURCE_EXHAUSTED) names the later
// of the service's instant and ours, in whole seconds of at least 1 and on one line,
// however often and in whatever form the service said it; ours brings its ticket.
// A wait of more than 24 days is cut to that, since the timers of browsers fire at
// once beyond it. The rest is not touched.
func Decorate(h http.Header, status int, d *Decoration) Verdict {
	removeOwn(h)
	if code := h[headerGRPCStatus]; len(code) > 0 {
		return decorateGRPC(h, code[0], d)
	}
	if status < 400 {
		return Unsaid
	}
	if d.Hopeless || comporta.Deterministic(status) {
		silence(h)
		set(h, comporta.HeaderShouldRetry, "false")
		return Stop
	}
	v := says(h, d.Body)
	switch v {
	case Again:
		set(h, comporta.HeaderShouldRetry, "true")
	case Stop:
		set(h, comporta.HeaderShouldRetry, "false")
		return Stop
	case Unsaid:
	}
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		raise(h, d)
	}
	return v
}

func set(h http.Header, name, value string) { h[name] = []string{value} }

// removeOwn deletes every Comporta-* line.
func removeOwn(h http.Header) {
	const prefix = "Comporta-"
	for name := range h {
		if len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) {
			delete(h, name)
		}
	}
}

// silence deletes every promise of a better time.
func silence(h http.Header) {
	delete(h, comporta.HeaderRetryAfter)
	delete(h, comporta.HeaderRetryAfterMs)
	delete(h, comporta.HeaderRetryTicket)
}

// says reads what the service itself says about repeating; its headers come
// before its body.
func says(h http.Header, body []byte) Verdict {
	if v := verdictOf(retryafter.Says(h)); v != Unsaid {
		return v
	}
	if _, v := pushback(h); v != Unsaid {
		return v
	}
	switch value, found := retryafter.SaysRetryable(body); {
	case !found:
		return Unsaid
	case value:
		return Again
	}
	return Stop
}

func verdictOf(w retryafter.Word) Verdict {
	switch w {
	case retryafter.Again:
		return Again
	case retryafter.Stop:
		return Stop
	default:
		return Unsaid
	}
}

// longest is the longest wait that leaves the gate for a service that names one.
// Its milliseconds still fit into 31 bits: a script whose timer is set further
// ahead (24.8 days) fires at once, so that what means "not this month" would be a
// storm. A quota that lasts longer is told again on the return.
const longest = 24 * 24 * time.Hour

// raise makes the header name the later of the service's instant and ours, on
// one line each, whatever the service wrote: of several lines, clients and the
// proxies between read the first, the last, or none.
func raise(h http.Header, d *Decoration) {
	theirs := retryafter.WaitAt(d.Now, h)
	wait, precise := min(theirs.Exact(), longest), theirs.HasPrecise
	if d.Slot != nil {
		ours, ticket := d.Slot(wait)
		if ours > 0 && ours >= wait {
			wait = min(ours, longest)
			if len(ticket) > 0 {
				set(h, comporta.HeaderRetryTicket, string(ticket))
			}
			// The exact wait too, because libraries that know it read it first: a
			// smaller one of the service's would undo ours.
			precise = true
		}
	}
	if wait <= 0 && !theirs.Known { // nobody has said anything that can be read
		delete(h, comporta.HeaderRetryAfter)
		delete(h, comporta.HeaderRetryAfterMs)
		return
	}
	set(h, comporta.HeaderRetryAfter, strconv.FormatInt(max(seconds(wait), 1), 10))
	if precise {
		set(h, comporta.HeaderRetryAfterMs, strconv.FormatInt(max(millis(wait), 1), 10))
	}
}

// decorateGRPC does for a gRPC status what Decorate does for an HTTP one; the
// only word about repeating that gRPC libraries obey is the pushback.
func decorateGRPC(h http.Header, status string, d *Decoration) Verdict {
	code, err := strconv.Atoi(status)
	if err != nil || code == 0 {
		return Unsaid
	}
	theirs, v := pushback(h)
	if v == Stop || d.Hopeless || comporta.DeterministicGRPC(code) {
		set(h, headerGRPCPushback, "-1")
		return Stop
	}
	wait := min(theirs, longest)
	if d.Slot != nil && (code == grpcUnavailable || code == grpcResourceExhausted) {
		ours, ticket := d.Slot(wait)
		if ours > 0 && (ours >= wait || v == Unsaid) {
			wait, v = min(ours, longest), Again
			if len(ticket) > 0 {
				set(h, comporta.HeaderRetryTicket, string(ticket))
			}
		}
	}
	if v == Again {
		set(h, headerGRPCPushback, strconv.FormatInt(millis(wait), 10))
	}
	return v
}

// pushback reads gRPC's word on repeating.
func pushback(h http.Header) (time.Duration, Verdict) {
	wait, word := retryafter.Pushback(h[headerGRPCPushback])
	return wait, verdictOf(word)
}
