package overload

import (
	"net/http"
	"time"

	"github.com/comporta/comporta"
)

// DefaultWait is said when a retryable refusal brings no wait of its own: a
// client that is told nothing chooses for itself, and usually chooses at once.
const DefaultWait = time.Second

// OutcomeUnknown is the Outcome of a refusal after the service may have acted.
const OutcomeUnknown = "unknown"

// Refusal is one "no", before it takes the form that its caller understands.
//
// The zero value says that capacity is exhausted and asks for [DefaultWait].
// Writing does not change a Refusal, so one may be written many times.
type Refusal struct {
	Reason comporta.Reason // ReasonNone counts as CapacityExhausted
	// Status replaces the reason's status; values outside 400 to 599 are ignored.
	Status int
	// Stop tells the client not to repeat although the reason would allow it.
	// A reason that is not retryable stays so.
	Stop bool
	// Wait is the exact time until the client may return. It is said only when
	// the refusal is retryable; 0 and less mean DefaultWait.
	Wait time.Duration
	// Ticket is the signed slot that belongs to Wait; empty when no instant was
	// booked. It is copied while writing.
	Ticket []byte
	// Attempts counts the sightings of the operation, this one included; 0 = unknown.
	Attempts       int
	RequestID      string
	MinimumVersion string          // with ClientTooOld
	Outcome        string          // OutcomeUnknown when the service may have acted
	Detail         string          // a sentence for the human who debugs the client
	Why            comporta.Detail // said, in the words of the dialect, where Detail is empty
	Violated       []string        // names of the rate rules that denied
	// Answer is the service's own last answer, said again in place of the
	// problem document; nil for everything but a hopeless repeat.
	Answer *Answer
	// Code is a service's own code. It replaces that of the reason, and the
	// problem's type becomes about:blank: only the service can document it.
	Code string
	// FromService marks what the service said through Busy or Deterministic: the
	// gate did not decide it, so it carries no Comporta-Decision.
	FromService bool
}

// Answer is a remembered answer of the service. Its status is the Refusal's.
type Answer struct {
	ContentType string
	Encoding    string // Content-Encoding; empty = identity
	Body        []byte
}

// Fault refuses a request whose exchange with the service broke off: reason is
// UpstreamFailed or UpstreamTimeout. The service may have acted by then, so only
// a request that is safe, or that carries an idempotency key, may be repeated.
func Fault(reason comporta.Reason, r *comporta.Request) Refusal {
	ref := Refusal{Reason: reason, RequestID: r.ID, Attempts: r.Sighting.Attempts}
	if !r.Safe() && r.IdempotencyKey == "" {
		ref.Stop, ref.Outcome = true, OutcomeUnknown
	}
	return ref
}

// Retryable reports whether the refusal invites the client to return.
func (ref *Refusal) Retryable() bool { return !ref.Stop && ref.info().Retryable }

// StatusCode returns the HTTP status that the refusal is written with.
func (ref *Refusal) StatusCode() int {
	if ref.Status >= 400 && ref.Status <= 599 {
		return ref.Status
	}
	return ref.info().Status
}

func (ref *Refusal) reason() comporta.Reason {
	if ref.Reason == comporta.ReasonNone || ref.Reason >= comporta.NumReasons {
		return comporta.CapacityExhausted
	}
	return ref.Reason
}

func (ref *Refusal) info() *comporta.ReasonInfo { return ref.reason().Info() }

func (ref *Refusal) code() string {
	if ref.Code != "" {
		return ref.Code
	}
	return ref.info().Code
}

// detail is the sentence as it is said in English; empty: there is none.
func (ref *Refusal) detail() string {
	if ref.Detail == "" && ref.Why != comporta.DetailNone {
		return ref.Why.String()
	}
	return ref.Detail
}

func (ref *Refusal) title() string {
	if ref.Code == "" {
		return ref.info().Title
	}
	// RFC 9457, 4.2.1: with about:blank the title is the status phrase.
	if text := http.StatusText(ref.StatusCode()); text != "" {
		return text
	}
	return "Error"
}

// wait is the exact wait as it is said; 0 when the refusal is not retryable.
func (ref *Refusal) wait() time.Duration {
	switch {
	case !ref.Retryable():
		return 0
	case ref.Wait <= 0:
		return DefaultWait
	}
	return ref.Wait
}

// ceil rounds up to whole units, so that a client which obeys is never early.
// d must be positive; the result is then at least 1.
func ceil(d, unit time.Duration) int64 { return int64((d-1)/unit) + 1 }
