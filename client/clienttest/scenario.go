package clienttest

import (
	"net/http"
	"slices"
	"time"
)

// Ceiling is the most calls that one operation may cost a server that fails.
const Ceiling = 5

// Scenario is one way in which a server fails, and what a good client makes of
// it. The zero value fails no one.
type Scenario struct {
	Name   string // one path segment
	Story  string // what the server does
	Good   string // what a good client does
	Method string // which method shows it; empty is any, and Run sends GET
	Calls  int    // the most calls

	answer func(*call, http.ResponseWriter)
	ahead  time.Duration // of the instant that the answer names as a date; 0 is none
	reuses bool          // whether a connection survives the answer
	hopes  bool          // whether a further call may be worth it
}

// The waits that servers name in the scenarios.
const (
	wait60  = "60"         // longer than a run
	waitFar = "9223372037" // seconds; as nanoseconds it overflows 64 bits
)

// Scenarios returns all scenarios, in the order in which they are played.
func Scenarios() []Scenario { return slices.Clone(scenarios) }

var scenarios = []Scenario{
	{
		Name: "unavailable", Calls: Ceiling, answer: busy(""), reuses: true, hopes: true,
		Story: "503, always",
		Good:  "a few calls, ever further apart, on one connection",
	},
	{
		Name: "big-bodies", Calls: Ceiling, answer: bulky, hopes: true,
		Story: "503 with a body of 4 MiB, always",
		Good:  "a few calls; reads a part of each body and lets go of it",
	},
	{
		Name: "beyond-deadline", Calls: 1, answer: busy(wait60), reuses: true,
		Story: "503 with Retry-After: 60",
		Good:  "one call; gives the answer back at once if it cannot wait for so long",
	},
	{
		Name: "far-future", Calls: 1, answer: busy(waitFar), reuses: true,
		Story: "503 with Retry-After: 9223372037",
		Good:  "one call; a wait that overflows is long, not over",
	},
	{
		Name: "date", Calls: Ceiling, answer: dated, ahead: 2 * time.Second, reuses: true, hopes: true,
		Story: "503 with a date as Retry-After, 2 s ahead",
		Good:  "no call before the date",
	},
	{
		Name: "not-retryable", Calls: 1, answer: hopeless, reuses: true,
		Story: `500 with x-should-retry: false and {"retryable":false}`,
		Good:  "one call",
	},
	{
		Name: "post-without-key", Method: http.MethodPost, Calls: Ceiling, answer: busy(""), reuses: true, hopes: true,
		Story: "503 to a POST",
		Good:  "one call without an Idempotency-Key, or a few with one and the same key",
	},
	{
		Name: "nested", Calls: Ceiling, answer: inviting, reuses: true, hopes: true,
		Story: `503 with Retry-After: 0 and {"retryable":true}, which every layer that retries obeys`,
		Good:  "a few calls: one layer retries, and the server cannot raise its ceiling",
	},
	{
		Name: "resets", Calls: Ceiling, answer: reset, hopes: true,
		Story: "the connection is reset after each request",
		Good:  "a few calls",
	},
	{
		Name: "slow-headers", Calls: Ceiling, answer: trickle, hopes: true,
		Story: "the head of the answer comes byte by byte and never ends",
		Good:  "a few calls; the deadline covers the head too",
	},
}
