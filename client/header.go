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

// maxLines is how many lines an attempt adds at most.
const maxLines = 5

// maxTicket is the longest Retry-Ticket that is sent back: no gateway reads more.
const maxTicket = 200

// header returns the header of an attempt: the caller's own map while there is
// nothing to add, else a map that shares the caller's values. Attempts say from
// the first on who repeats and how long they wait, because a server that learns
// it only from the repeats has by then repeated itself (see Inbound).
func (a *attempt) header(share time.Duration) http.Header {
	c := a.call
	callers := c.caller.Header
	b := headerBuilder{header: callers, values: a.values[:0]}
	if callers == nil {
		b.header, b.own = make(http.Header, maxLines), true
	}
	if v := *c.version; v != "" && !has(callers, comporta.HeaderClientVersion) {
		b.set(comporta.HeaderClientVersion, v)
	}
	if n := a.number - 1 + c.declared; a.number > 1 || !c.announced {
		b.set(comporta.HeaderRetryAttempt, strconv.Itoa(n))
	}
	if ms := share.Milliseconds(); ms < saidPatience(callers) {
		b.set(comporta.HeaderRequestTimeoutMs, timeoutText(max(ms, 1)))
	}
	if c.minted != "" {
		b.set(comporta.HeaderIdempotencyKey, c.minted)
	}
	if c.ticket != "" {
		b.set(comporta.HeaderRetryTicket, c.ticket)
	}
	return b.header
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

// headerBuilder copies a map when the first line is set.
type headerBuilder struct {
	header http.Header
	own    bool
	values []string // room for maxLines; no line's slice has room for another's
}

func (b *headerBuilder) set(name, value string) {
	if !b.own {
		b.header, b.own = maps.Clone(b.header), true
	}
	n := len(b.values)
	b.values = append(b.values, value)
	b.header[name] = b.values[n : n+1 : n+1]
}

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
