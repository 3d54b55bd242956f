package overload

import (
	"net"
	"net/http"
	"time"

	"github.com/comporta/comporta"
)

// Door is what a gate's ResponseWriter offers to the handlers that it guards, so
// that their own refusals are part of the same contract.
type Door interface {
	// CompleteRefusal fills in what only the gate knows: the attempts, the
	// request id and, if ref is retryable, an instant not earlier than ref.Wait
	// with its ticket. It returns the writer of the gate's contract, nil for the
	// standard one. The refusal is then written to the outermost ResponseWriter,
	// so that middleware between sees it pass; when it arrives at the gate's own,
	// the gate must not book a second instant for it.
	CompleteRefusal(r *http.Request, ref *Refusal) *Writer
}

// maxUnwrap ends the search for a Door in a chain of ResponseWriters that bites
// its own tail.
const maxUnwrap = 64

// door finds the gate behind w; nil when there is none.
func door(w http.ResponseWriter) Door {
	for range maxUnwrap {
		if d, ok := w.(Door); ok {
			return d
		}
		u, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return nil
		}
		w = u.Unwrap()
	}
	return nil
}

// standard is the writer of applications that no gate stands around: that of the
// zero Config.
var standard = &Writer{types: typesUnder(DefaultTypeBase + "#")}

// Busy answers that the service itself is too busy for this request: 503 with an
// instant to return, at least minimum from now (0 and less mean DefaultWait).
//
// Inside the middleware the instant comes from the gate's calendar. In a service
// of its own it lies between minimum and twice minimum (at most 50 s later), the
// same for the same client and request, so that those who are refused together
// do not return together; a gateway in front may raise it, never lower it.
func Busy(w http.ResponseWriter, r *http.Request, minimum time.Duration) {
	if minimum <= 0 {
		minimum = DefaultWait
	}
	ref := Refusal{Reason: comporta.CapacityExhausted, Wait: minimum, FromService: true}
	d := door(w)
	if d == nil {
		ref.Wait = spread(r, minimum)
	}
	through(d, w, r, &ref)
}

// Deterministic answers that this request fails and would fail again: no time to
// return, and a plain "do not repeat". status is 400 to 599 (anything else
// becomes 422), code is the service's own name for the failure, detail a
// sentence for whoever debugs the client; it may be empty.
func Deterministic(w http.ResponseWriter, r *http.Request, status int, code, detail string) {
	if status < 400 || status > 599 {
		status = http.StatusUnprocessableEntity
	}
	if code == "" {
		code = "error"
	}
	ref := Refusal{Status: status, Stop: true, Code: code, Detail: detail, FromService: true}
	Refuse(w, r, &ref)
}

// Refuse writes ref through the gate that stands around w: the gate completes
// it and its contract words it. Without a gate the standard contract does.
func Refuse(w http.ResponseWriter, r *http.Request, ref *Refusal) {
	through(door(w), w, r, ref)
}

func through(d Door, w http.ResponseWriter, r *http.Request, ref *Refusal) {
	wr := standard
	if d != nil {
		if gates := d.CompleteRefusal(r, ref); gates != nil {
			wr = gates
		}
	}
	wr.Write(w, r, ref)
}

// maxSpread is how far the instants of clients refused together lie apart.
const maxSpread = 50 * time.Second

// spread moves a wait by an amount that hangs on who asks for what. The hash
// (FNV-1a) only has to scatter: it names nobody, and a client that shifts its
// own instant within the window gains nothing by it.
func spread(r *http.Request, minimum time.Duration) time.Duration {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	sum := uint64(0xcbf29ce484222325)
	for _, part := range [...]string{
		host, r.Header.Get("X-Forwarded-For"), r.Header.Get("Authorization"), r.Method, r.RequestURI,
	} {
		for i := range len(part) {
			sum = (sum ^ uint64(part[i])) * 0x100000001b3
		}
		sum = (sum ^ 0xff) * 0x100000001b3 // no part ends where the next begins
	}
	window := uint64(min(minimum, maxSpread))
	return minimum + time.Duration(sum%window)
}
