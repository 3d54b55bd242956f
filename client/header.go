package client

import (
	"maps"
	"math"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/comporta/comporta"
)

// An attempt adds at most maxLines lines, and hardly ever more than inlineLines.
const (
	maxLines    = 5
	inlineLines = 3
)

// maxTicket is the longest Retry-Ticket that is sent back: no gateway reads more.
const maxTicket = 200

// header returns the header of an attempt that waits for so long: the caller's own
// map while there is nothing to add, else a new one that shares the caller's
// values. Attempts say from the first on who repeats and how long they wait,
// because a server that learns it only from the repeats has by then repeated
// itself (see Inbound).
func (a *attempt) header(patience time.Duration) http.Header {
	c := a.call()
	callers := c.caller.Header
	var l lines
	if v := *c.version; v != "" && !has(callers, comporta.HeaderClientVersion) {
		l.add(comporta.HeaderClientVersion, v)
	}
	if a.number > 1 || !c.announced {
		l.add(comporta.HeaderRetryAttempt, strconv.Itoa(int(a.number-1+c.declared)))
	}
	if ms := patience.Milliseconds(); ms < saidPatience(callers) {
		l.add(comporta.HeaderRequestTimeoutMs, timeoutText(max(ms, 1)))
	}
	if key := c.minted(); key != "" {
		l.add(comporta.HeaderIdempotencyKey, key)
	}
	if c.trouble != nil && c.trouble.ticket != "" {
		l.add(comporta.HeaderRetryTicket, c.trouble.ticket)
	}
	if l.n == 0 && callers != nil {
		return callers
	}
	// Made at its size and filled once: up to eight lines cost two allocations.
	h := make(http.Header, len(callers)+l.n)
	maps.Copy(h, callers)
	for i := range l.n {
		if i < inlineLines {
			a.values[i] = l.values[i]
			h[l.names[i]] = a.values[i : i+1 : i+1] // no line has room in another's place
		} else {
			h[l.names[i]] = []string{l.values[i]}
		}
	}
	return h
}

// lines are what an attempt adds to the caller's header.
type lines struct {
	n             int
	names, values [maxLines]string
}

func (l *lines) add(name, value string) {
	l.names[l.n], l.values[l.n] = name, value
	l.n++
}

// saidPatience is what the caller's own header says, in milliseconds; endless
// where it says nothing.
func saidPatience(h http.Header) int64 {
	if v := h[comporta.HeaderRequestTimeoutMs]; len(v) > 0 {
		if d, ok := comporta.ParseTimeoutMs(v[0]); ok {
			return d.Milliseconds()
		}
	}
	return math.MaxInt64
}

func has(h http.Header, name string) bool { return len(h[name]) > 0 }

// ticketOf is the ticket to show at the next attempt.
func ticketOf(h http.Header) string {
	if v := h[comporta.HeaderRetryTicket]; len(v) == 1 && len(v[0]) <= maxTicket {
		return v[0]
	}
	return ""
}

// timeoutTexts holds the texts of milliseconds, made when first needed. A call's
// patience is never the same twice, so it is said to three digits, rounded down:
// one per cent of precision against an allocation for every call.
var timeoutTexts [1000 + 5*900]atomic.Pointer[string]

// timeoutText returns ms as text: exactly below 1000, else to three digits,
// rounded down; at most a day. ms is positive.
func timeoutText(ms int64) string {
	ms = min(ms, int64(24*time.Hour/time.Millisecond))
	i, unit := ms, int64(1)
	if ms >= 1000 {
		base := int64(1000)
		unit = 10
		for ms/unit >= 1000 {
			unit *= 10
			base += 900
		}
		i = base + ms/unit - 100
	}
	slot := &timeoutTexts[i]
	if text := slot.Load(); text != nil {
		return *text
	}
	text := strconv.FormatInt(ms/unit*unit, 10)
	slot.Store(&text)
	return text
}
