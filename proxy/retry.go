package proxy

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/comporta/comporta"
)

// The defaults of Retries.
const (
	DefaultRetryBudget = 0.1
	DefaultRetryBurst  = 10
)

// Retries says that a request may be sent once more. It is off unless it is
// configured, and even then it does little: whoever stands in front of a service
// to end its retries had better make few.
//
// Sent again is a request that does not say of itself that it is a retry, whose
// method is idempotent or that has an Idempotency-Key, whose body is missing or was
// read ahead, that does not want to switch protocols, and of whose answer the caller
// has seen nothing: after the upstream hung up or spoke garbage, and, if there is
// another upstream to ask, after an answer of 502, 503 or 504 that does not ask for
// patience (Retry-After) or forbid it (x-should-retry: false). The service learns by
// Retry-Attempt that it is a retry. A request that was not answered in time is not
// sent again: nobody would wait for it.
type Retries struct {
	// Budget is how many retries each request earns; 0 means 0.1, one in ten.
	Budget float64
	// Burst is how many retries may be saved up; 0 means 10.
	Burst int
}

// problems names what is wrong with r.
func (r *Retries) problems(add func(format string, args ...any)) {
	if !(r.Budget >= 0 && r.Budget <= 1) { // so written, it catches NaN too
		add("Retries.Budget is %v: it must be a share from 0 to 1, of which 0 means 0.1", r.Budget)
	}
	if r.Burst < 0 || r.Burst > 1<<20 {
		add("Retries.Burst is %d: it must be from 0 to 1,048,576, of which 0 means 10", r.Burst)
	}
}

func (r *Retries) withDefaults() {
	if r.Budget == 0 {
		r.Budget = DefaultRetryBudget
	}
	if r.Burst == 0 {
		r.Burst = DefaultRetryBurst
	}
}

// purse holds the retries that requests have earned, in thousandths.
type purse struct {
	saved   atomic.Int64
	refused atomic.Uint64
}

const wholeRetry = 1000

// earn adds what a request earns.
func (p *purse) earn(r *Retries) {
	most := int64(r.Burst) * wholeRetry
	for {
		saved := p.saved.Load()
		if saved >= most || p.saved.CompareAndSwap(saved, min(saved+int64(r.Budget*wholeRetry), most)) {
			return
		}
	}
}

// spend takes a retry out, if there is one.
func (p *purse) spend() bool {
	for {
		saved := p.saved.Load()
		if saved < wholeRetry {
			p.refused.Add(1)
			return false
		}
		if p.saved.CompareAndSwap(saved, saved-wholeRetry) {
			return true
		}
	}
}

// mayRetry reports whether a request may be sent again after an answer a, or after
// failure f.
func (x *exchange) mayRetry(now time.Time, a answer, f *failure) bool {
	switch {
	case x.p.config.Retries == nil, x.informed, x.upgrade != "", !x.repeatable(), spent(x.in.Context(), now), !x.replayable():
		return false
	case f != nil:
		return f.reason == comporta.UpstreamFailed && x.p.retries.spend()
	}
	status, _ := a.head()
	switch status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
	default:
		return false
	}
	return x.p.another(now, x.up) && impatient(a) && x.p.retries.spend()
}

// replayable reports whether a request may be carried out twice, and is the first of
// its kind: a caller that retries by itself needs no help.
func (x *exchange) replayable() bool {
	var r comporta.Request
	comporta.Signals{}.Read(x.in.Header, &r)
	if r.Attempt > 0 {
		return false
	}
	switch x.in.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return r.IdempotencyKey != ""
}

// impatient reports whether a failure's answer leaves it open when to ask again.
func impatient(a answer) bool {
	h := make(http.Header)
	a.addHeader(h)
	return h.Get(comporta.HeaderRetryAfter) == "" && h.Get(comporta.HeaderShouldRetry) != "false"
}

// sayRetry tells the service that it is asked again.
func (x *exchange) sayRetry(attempt int) {
	x.header[comporta.HeaderRetryAttempt] = []string{strconv.Itoa(attempt)}
}
