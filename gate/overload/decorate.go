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
// of the service's instant and ours; ours brings its ticket. The rest is not
// touched.
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

// raise makes the header name the later of the service's instant and ours. A
// line of the service's that is late enough already stays as it is written.
func raise(h http.Header, d *Decoration) {
	theirs := retryafter.WaitAt(d.Now, h)
	wait := theirs.Exact()
	if d.Slot != nil {
		ours, ticket := d.Slot(wait)
		if ours > 0 && ours >= wait {
			wait = ours
			if len(ticket) > 0 {
				set(h, comporta.HeaderRetryTicket, string(ticket))
			}
			// The exact wait too, because libraries that know it read it first: a
			// smaller one of the service's would undo ours.
			theirs.HasPrecise = true
		}
	}
	if wait <= 0 {
		return
	}
	if theirs.After < wait {
		set(h, comporta.HeaderRetryAfter, strconv.FormatInt(seconds(wait), 10))
	}
	if theirs.HasPrecise && theirs.Precise < wait {
		set(h, comporta.HeaderRetryAfterMs, strconv.FormatInt(millis(wait), 10))
	}
}

// decorateGRPC does for a gRPC status what Decorate does for an HTTP one; the
// only word about repeating that gRPC libraries obey is the pushback.
func decorateGRPC(h http.Header, status string, d *Decoration) Verdict {
	code, err := strconv.Atoi(status)
	if err != nil || code == 0 {
		return Unsaid
	}
	if d.Hopeless || comporta.DeterministicGRPC(code) {
		set(h, headerGRPCPushback, "-1")
		return Stop
	}
	theirs, v := pushback(h)
	if v == Stop || (code != grpcUnavailable && code != grpcResourceExhausted) || d.Slot == nil {
		return v
	}
	ours, ticket := d.Slot(theirs)
	if ours > 0 && (ours >= theirs || v == Unsaid) {
		set(h, headerGRPCPushback, strconv.FormatInt(millis(ours), 10))
		if len(ticket) > 0 {
			set(h, comporta.HeaderRetryTicket, string(ticket))
		}
		return Again
	}
	return v
}

// pushback reads gRPC's word on repeating.
func pushback(h http.Header) (time.Duration, Verdict) {
	wait, word := retryafter.Pushback(h[headerGRPCPushback])
	return wait, verdictOf(word)
}
