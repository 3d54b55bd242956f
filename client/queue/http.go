package queue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/comporta/comporta"
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
// Timeout. A nil client means http.DefaultClient; the client must not retry by
// itself.
//
// Any 2xx is [Done]. The server's own word ("retryable" or "repetivel" in the
// body, x-should-retry) beats the status; without it 408, 409, 425, 429, 500,
// 502, 503 and 504 are [Again], a request that reached no server is [Offline],
// and all else is [Never], an error of build too.
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
	var word retryafter.Word
	if retryafter.Peekable(h, resp.StatusCode) {
		body, err := io.ReadAll(io.LimitReader(resp.Body, retryafter.MaxPeek))
		if again, found := retryafter.SaysRetryable(body); err == nil && found {
			word = retryafter.Stop
			if again {
				word = retryafter.Again
			}
		}
	}
	if said := retryafter.Says(h); word == retryafter.Unsaid || said == retryafter.Stop {
		word = said
	}
	_, _ = io.CopyN(io.Discard, resp.Body, maxDrain) // as far as it goes: only the connection's reuse is at stake
	r := Result{Fate: fateOf(resp.StatusCode, word)}
	if r.Fate == Done {
		return r
	}
	r.Err = fmt.Errorf("queue: the server answered %d", resp.StatusCode)
	if code := h.Get(comporta.HeaderDecision); code != "" {
		r.Err = fmt.Errorf("queue: the server answered %d (%.64q)", resp.StatusCode, code)
	}
	if r.Fate == Again {
		r.Wait, r.Ticket = retryafter.WaitAt(time.Now(), h).Exact(), h.Get(comporta.HeaderRetryTicket)
	}
	return r
}

func fateOf(status int, word retryafter.Word) Fate {
	switch {
	case status >= 200 && status < 300:
		return Done
	case word == retryafter.Stop:
		return Never
	case word == retryafter.Again:
		return Again
	}
	switch status {
	case 408, 409, 425, 429, 500, 502, 503, 504: // 409: the key is still being worked on
		return Again
	}
	return Never
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
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return Offline
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return Offline
	}
	return Again
}
