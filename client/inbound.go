package client

import (
	"net/http"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/client/internal/operation"
)

// Inbound carries what a request says of its sender to the calls that are made
// for it: wrap a server's handler in it, and give the request's context to the
// calls. If the sender repeats (it says so in Retry-Attempt, from the first
// attempt on) the calls make one attempt each: one layer repeats, and it is the
// outermost. If it says how long it waits, the calls end that much earlier by
// Config.Margin.
func Inbound(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if mark := markOf(r.Header); mark != nil {
			r = r.WithContext(operation.With(r.Context(), mark))
		}
		next.ServeHTTP(w, r)
	})
}

// markOf reads the signals of the contract; nil when there are none.
func markOf(h http.Header) *operation.Mark {
	var signals comporta.Signals // those of the contract
	var read comporta.Request
	signals.Read(h, &read)
	mark := &operation.Mark{Attempt: read.Attempt}
	// Our own header says it from the first attempt on. Others are set by proxies
	// that may never repeat: only a repeat proves that they do.
	if has(h, comporta.HeaderRetryAttempt) || read.Attempt > 0 {
		mark.Owner = "inbound"
	}
	if read.Patience > 0 {
		mark.Sender = time.Now().Add(read.Patience)
	}
	if mark.Owner == "" && mark.Sender.IsZero() {
		return nil
	}
	return mark
}
