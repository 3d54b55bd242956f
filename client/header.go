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

// value is the text of a line that many attempts say: they share it, since nobody
// may write to the request that a transport was given. Lines that are made of it
// have no room in another's place.
type value [1]string

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
	says := c.version[0] != "" && !has(callers, comporta.HeaderClientVersion)
	counts := a.number > 1 || !c.announced
	ms := patience.Milliseconds()
	waits := ms < saidPatience(callers)
	key, ticket := c.minted(), ""
	if c.trouble != nil {
		ticket = c.trouble.ticket
	}
	lines := one(says) + one(counts) + one(waits) + one(key != "") + one(ticket != "")
	if lines == 0 && callers != nil {
		return callers
	}
	h := withRoom(callers, lines)
	if says {
		h[comporta.HeaderClientVersion] = c.version[:]
	}
	if counts {
		h[comporta.HeaderRetryAttempt] = numberValue(int(a.number - 1 + c.declared))[:]
	}
	if waits {
		h[comporta.HeaderRequestTimeoutMs] = timeoutValue(max(ms, 1))[:]
	}
	if key != "" {
		h[comporta.HeaderIdempotencyKey] = []string{key}
	}
	if ticket != "" {
		h[comporta.HeaderRetryTicket] = []string{ticket}
	}
	return h
}

// smallMap is how many entries the runtime keeps in one piece, which maps.Clone
// copies as it is.
const smallMap = 8

// withRoom returns a copy of h for so many lines more. It never grows after that:
// up to eight lines cost two allocations, and more cost four.
func withRoom(h http.Header, lines int) http.Header {
	if h != nil && len(h)+lines <= smallMap {
		return maps.Clone(h)
	}
	wide := make(http.Header, len(h)+lines)
	maps.Copy(wide, h)
	return wide
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
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

// numberValues are the attempts that nearly all calls get by with.
var numberValues = [...]value{{"0"}, {"1"}, {"2"}, {"3"}, {"4"}, {"5"}, {"6"}, {"7"}, {"8"}, {"9"}}

// numberValue returns n, which is not negative, as text.
func numberValue(n int) *value {
	if n < len(numberValues) {
		return &numberValues[n]
	}
	return &value{strconv.Itoa(n)}
}

// timeoutValues holds the texts of milliseconds, made when first needed. A call's
// patience is never the same twice, so it is said to three digits, rounded down:
// one per cent of precision against an allocation for every call.
var timeoutValues [1000 + 5*900]atomic.Pointer[value]

// timeoutValue returns ms as text: exactly below 1000, else to three digits,
// rounded down; at most a day. ms is positive.
func timeoutValue(ms int64) *value {
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
	slot := &timeoutValues[i]
	if known := slot.Load(); known != nil {
		return known
	}
	text := &value{strconv.FormatInt(ms/unit*unit, 10)}
	slot.Store(text)
	return text
}
