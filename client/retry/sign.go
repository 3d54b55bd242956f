package retry

import (
	"net/http"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/internal/retryafter"
)

// Spread says how a wait that a server named is spread, so that those who were
// told the same do not come at the same instant.
type Spread uint8

// The spreads.
const (
	SpreadTenth Spread = iota // up to a tenth is added: the server may have told everybody the same
	SpreadTick                // up to a second is added: the instant is this client's own (a Retry-Ticket)
	SpreadNone                // to the millisecond: gRPC's pushback
)

// tick is what SpreadTick adds at most.
const tick = time.Second

// Sign is what an attempt left behind, as far as another one is concerned.
type Sign struct {
	OK bool // it succeeded: the rest means nothing
	// Retryable: the status or fault is one that another try may change.
	Retryable bool
	// Again and Stop are the server's explicit word. It beats Retryable.
	Again, Stop bool
	// Untouched: it is certain that nothing was done. Such an attempt may be
	// repeated whatever the request is.
	Untouched bool
	// Wait is what the server asks for; 0 leaves it to the policy, unless Named.
	Wait   time.Duration
	Named  bool // Wait counts although it is 0
	Spread Spread
	// Restart lets the growth of waits begin anew after this one.
	Restart bool
	// Charge takes a token of the budget although no repeat follows.
	Charge bool
	// Reason is what stopped it, where Stop alone would say too little.
	Reason Reason
}

// OfResponse reads a response of HTTP. body is its body if it is known, for the
// fields retryable and repetivel of a JSON document; else nil. keyed says that
// the request carried an Idempotency-Key. now measures a Retry-After that is a
// date, where the response has no Date. It does not allocate.
//
// Retryable are 408, 425, 429, 500, 502, 503 and 504, and 409 to a request with
// a key: the first one still runs. What the server says of itself beats the
// status. A refusal of the gateway that invites a repeat is proof that the
// service has not seen the request.
func OfResponse(now time.Time, status int, h http.Header, body []byte, keyed bool) Sign {
	if status < 400 {
		return Sign{OK: true}
	}
	s := Sign{Retryable: retryableStatus(status, keyed)}
	switch wordOf(h, body) {
	case retryafter.Again:
		s.Again, s.Untouched = true, refused(h)
	case retryafter.Stop:
		s.Stop = true
	case retryafter.Unsaid:
	}
	if h.Get(comporta.HeaderDecision) == comporta.ClientTooOld.String() {
		s.Stop, s.Again, s.Reason = true, false, ReasonTooOld
	}
	s.Wait = retryafter.WaitAt(now, h).Exact()
	if len(h[comporta.HeaderRetryTicket]) > 0 {
		s.Spread = SpreadTick
	}
	return s
}

func retryableStatus(status int, keyed bool) bool {
	switch status {
	case 408, 425, 429, 500, 502, 503, 504:
		return true
	case 409:
		return keyed
	}
	return false
}

// wordOf reads the server's word: its headers come before its body.
func wordOf(h http.Header, body []byte) retryafter.Word {
	if w := retryafter.Says(h); w != retryafter.Unsaid || body == nil {
		return w
	}
	switch value, found := retryafter.SaysRetryable(body); {
	case !found:
		return retryafter.Unsaid
	case value:
		return retryafter.Again
	}
	return retryafter.Stop
}

// refused reports whether a gateway of this project answered in the service's
// place. A replayed answer names no reason, and is the service's own.
func refused(h http.Header) bool {
	_, known := comporta.ReasonByCode(h.Get(comporta.HeaderDecision))
	return known
}

// gRPC's status codes that another try may change.
const (
	grpcDeadlineExceeded  = 4
	grpcResourceExhausted = 8
	grpcUnavailable       = 14
)

// OfGRPC reads the end of a gRPC call: its status code, the values of
// grpc-retry-pushback-ms and that of comporta-decision. By gRFC A6 a pushback
// that is negative, unreadable or given twice means stop, and counts against the
// budget; a good one is waited exactly, and the growth of waits begins anew.
func OfGRPC(code int, pushback []string, decision string) Sign {
	if code == 0 {
		return Sign{OK: true}
	}
	s := Sign{Retryable: code == grpcUnavailable || code == grpcResourceExhausted || code == grpcDeadlineExceeded}
	wait, word := retryafter.Pushback(pushback)
	switch word {
	case retryafter.Stop:
		s.Stop, s.Charge = true, true
	case retryafter.Again:
		s.Wait, s.Named, s.Spread, s.Restart = wait, true, SpreadNone, true
		_, s.Untouched = comporta.ReasonByCode(decision)
	case retryafter.Unsaid:
	}
	return s
}
