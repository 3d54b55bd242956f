package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/comporta/comporta/gate"
)

func runExplain(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	f := newFlags("explain", stdout, stderr)
	r := newRemote(f)
	rest, code, done := f.parse(args)
	if done {
		return code
	}
	if len(rest) != 1 || rest[0] == "" {
		return f.misused("name one request id, as the refusal's request_id says it")
	}
	var e gate.Explanation
	if code, done = r.call(ctx, http.MethodGet, "/api/v1/explain/"+segment(rest[0]), nil, &e); done {
		return code
	}
	printExplanation(stdout, &e)
	return exitFine
}

func printExplanation(w io.Writer, e *gate.Explanation) {
	refused := "refused"
	if e.Observed {
		refused = "would have been refused"
	}
	say(w, "%s %s at %s: %s\n", e.RequestID, refused, e.At.Local().Format(time.TimeOnly), e.Reason)
	say(w, "  why        %s\n", e.Meaning)
	if e.Rule != "" {
		say(w, "  rule       %s\n", e.Rule)
	}
	say(w, "  request    %s on route %s\n", e.Method, e.Route)
	client := fmt.Sprintf("%s (%s)", e.Client, e.Class)
	if e.Shared {
		client = fmt.Sprintf("%s (%s, shared by many)", e.Client, e.Class)
	}
	if e.Version != "" {
		client += " " + e.Version
	}
	say(w, "  client     %s\n", client)
	say(w, "  seen       as %s, sighting %d, by evidence: %s; slot: %s\n", e.Kind, e.Attempts, e.Evidence, e.Slot)
	say(w, "  the house  %d of %d in flight; verdict: %s\n", e.Inflight, e.Capacity, e.Verdict)
	if e.QueuedMs > 0 {
		say(w, "  queued     %d ms\n", e.QueuedMs)
	}
	if !e.Due.IsZero() {
		say(w, "  may return at %s, after %v\n", e.Due.Local().Format("15:04:05.000"), time.Duration(e.WaitMs)*time.Millisecond)
	}
}
