package queue

import (
	"context"
	"errors"
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
	// maxDrain is what is read of an answer to keep its connection, in bytes, and
	// answerTime how long that may take.
	maxDrain   = 64 << 10
	answerTime = time.Second
	// maxRedirects is what net/http follows too.
	maxRedirects = 10
)

// HTTP returns a sender that makes one request of each item. build makes the
// request, with the context that it gets; HTTP adds the Idempotency-Key,
// Retry-Attempt and, on a return, the Retry-Ticket. An attempt takes two minutes
// at most, or less by the client's Timeout. A nil client means
// http.DefaultClient. A client of this module makes one attempt below a queue;
// another one must not retry by itself.
//
// Any 2xx is [Done]. Other answers are judged by [retry.OfResponse]: [Again] if
// another try may help, else [Never]. Redirects are followed as long as they keep
// the method. One that would turn a POST into a GET delivers nothing, and is
// Again: the network's login page may go, and where the server itself redirects
// the dead letter says so.
//
// [Offline] is a request that reached no server, or that something local held
// back (a breaker, a bulkhead, a client that repeats nothing here); the answer 511
// of a network that wants a login; and an answer that takes no calls from this
// version, because an update cures that. An error of build is Never.
func HTTP(client *http.Client, build func(context.Context, Item) (*http.Request, error)) Sender {
	if client == nil {
		client = http.DefaultClient
	}
	client = keepingMethod(client)
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
		late := time.AfterFunc(answerTime, cancel)
		defer late.Stop()
		return read(resp)
	}
}

// keepingMethod returns a copy of client that follows no redirect which changes
// the method.
func keepingMethod(client *http.Client) *http.Client {
	kept := *client
	kept.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		switch {
		case req.Method != via[0].Method:
			return http.ErrUseLastResponse
		case client.CheckRedirect != nil:
			return client.CheckRedirect(req, via)
		case len(via) >= maxRedirects:
			return fmt.Errorf("queue: stopped after %d redirects", maxRedirects)
		}
		return nil
	}
	return &kept
}

// read judges an answer and closes it.
func read(resp *http.Response) Result {
	defer func() { _ = resp.Body.Close() }() // what it says is read already
	status, h := resp.StatusCode, resp.Header
	var body []byte
	if retryafter.MayTell(h, status) && resp.ContentLength <= retryafter.MaxPeek {
		if b, err := io.ReadAll(io.LimitReader(resp.Body, retryafter.MaxPeek+1)); err == nil {
			body = b
		}
	}
	_, _ = io.CopyN(io.Discard, resp.Body, maxDrain) // as far as it goes: only the connection's reuse is at stake
	if status >= 200 && status < 300 {
		return Result{Fate: Done}
	}
	r := Result{Fate: Never, Err: fmt.Errorf("queue: the server answered %d", status)}
	if code := h.Get(comporta.HeaderDecision); code != "" {
		r.Err = fmt.Errorf("queue: the server answered %d (%.64q)", status, code)
	}
	sign := retry.OfResponse(time.Now(), status, h, body, true)
	switch {
	case status == http.StatusNetworkAuthenticationRequired,
		status == http.StatusUpgradeRequired && h.Get("Upgrade") == "", sign.Reason == retry.ReasonTooOld:
		r.Fate = Offline
	case redirects(status):
		r.Fate = Again
		r.Err = fmt.Errorf("queue: the answer %d leads to %.200q, where the request cannot follow as it is; send to the final address", status, h.Get("Location"))
	case !sign.Stop && (sign.Again || sign.Retryable):
		r.Fate, r.Wait, r.Ticket = Again, sign.Wait, h.Get(comporta.HeaderRetryTicket)
	}
	return r
}

func redirects(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
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
	if gaveUp, ok := errors.AsType[*retry.Error](err); ok && gaveUp.Report.Attempts == 0 {
		return Offline // the envelope below made no call
	}
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
