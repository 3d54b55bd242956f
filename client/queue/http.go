package queue

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/client/retry"
	"github.com/comporta/comporta/internal/retryafter"
)

const (
	// attemptTimeout bounds an attempt of [HTTP] whose client has no Timeout.
	attemptTimeout = 2 * time.Minute
	// maxDrain is what is read of an answer to keep its connection, in bytes.
	maxDrain = 64 << 10
)

// HTTP returns a sender that makes one request of each item. build makes the
// request, with the context that it gets; HTTP adds the Idempotency-Key, Retry-Attempt and, on a return, the
// Retry-Ticket. An attempt takes two minutes at most, or less by the client's
// Timeout. A nil client means http.DefaultClient. A client of this module makes
// one attempt below a queue; another one must not retry by itself.
//
// Any 2xx is [Done]. Other answers are judged by [retry.OfResponse]: [Again] if
// another try may help, else [Never]. A request that reached no server, or that a
// local breaker held back, is [Offline]; an error of build is Never.
func HTTP(client *http.Client, build func(context.Context, Item) (*http.Request, error)) Sender {
	if client == nil {
		client = http.DefaultClient
	}
	return func(ctx context.Context, item Item) Result {
		ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
		defer cancel()
		var way trace
		req, err := build(ctx, item)
		if err != nil {
			return Result{Fate: Never, Err: err}
		}
		if req = req.WithContext(way.watch(req.Context())); req.Header == nil {
			req.Header = make(http.Header)
		}
		req.Header.Set(comporta.HeaderIdempotencyKey, `"`+item.Key+`"`)
		req.Header.Set(comporta.HeaderRetryAttempt, strconv.Itoa(item.Attempts))
		if item.Ticket != "" {
			req.Header.Set(comporta.HeaderRetryTicket, item.Ticket)
		}
		resp, err := client.Do(req) //nolint:bodyclose // read closes it
		if err != nil {
			return Result{Fate: way.fate(err), Err: err}
		}
		return read(resp)
	}
}

// read judges an answer and closes it.
func read(resp *http.Response) Result {
	defer func() { _ = resp.Body.Close() }() // what it says is read already
	h := resp.Header
	var body []byte
	if retryafter.Peekable(h, resp.StatusCode) {
		if b, err := io.ReadAll(io.LimitReader(resp.Body, retryafter.MaxPeek)); err == nil {
			body = b
		}
	}
	_, _ = io.CopyN(io.Discard, resp.Body, maxDrain) // as far as it goes: only the connection's reuse is at stake
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return Result{Fate: Done}
	}
	r := Result{Fate: Never, Err: fmt.Errorf("queue: the server answered %d", resp.StatusCode)}
	if code := h.Get(comporta.HeaderDecision); code != "" {
		r.Err = fmt.Errorf("queue: the server answered %d (%.64q)", resp.StatusCode, code)
	}
	sign := retry.OfResponse(time.Now(), resp.StatusCode, h, body, true)
	if !sign.Stop && (sign.Again || sign.Retryable) {
		r.Fate, r.Wait, r.Ticket = Again, sign.Wait, h.Get(comporta.HeaderRetryTicket)
	}
	return r
}

// trace sees how far a request came. The transport may call it from goroutines
// of its own, also after the request's end.
type trace struct{ asked, written atomic.Bool }

func (t *trace) watch(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:              func(string) { t.asked.Store(true) },
		WroteHeaderField:     func(string, []string) { t.written.Store(true) },
		WroteHeaders:         func() { t.written.Store(true) },
		GotFirstResponseByte: func() { t.written.Store(true) },
	})
}

// fate tells what an error without an answer means. Offline needs evidence: a
// transport that ignores the trace must not make an item immortal.
func (t *trace) fate(err error) Fate {
	if t.written.Load() {
		return Again
	}
	if t.asked.Load() {
		return Offline
	}
	if retry.OfError(err).Untouched {
		return Offline // so says the error's type: a fault of dialing, or a local breaker
	}
	return Again
}
