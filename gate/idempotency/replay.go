package idempotency

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate/overload"
	"github.com/comporta/comporta/internal/retryafter"
	"github.com/comporta/comporta/store"
)

// DecisionReplayed is the Comporta-Decision of an answer from the record.
const DecisionReplayed = "replayed"

// Replay says a recorded answer again. Nothing may have been written to w before
// but header fields of outer layers. An answer whose body was not kept cannot be
// said again: NotKept is the refusal for it.
func Replay(w http.ResponseWriter, a *store.Answer) {
	h := w.Header()
	h[comporta.HeaderReplayed] = []string{"true"}
	if a.Status >= http.StatusBadRequest {
		h[comporta.HeaderShouldRetry] = []string{"false"} // under this key it will be the same again
	}
	say(w, a, -1)
}

// ReplayRefusal says a Verdict's Refusal, to come again after wait: 0 means
// overload.DefaultWait, less never. It is no answer of the key, which is free.
func ReplayRefusal(w http.ResponseWriter, a *store.Answer, wait time.Duration) {
	if wait == 0 {
		wait = overload.DefaultWait
	}
	h := w.Header()
	if wait < 0 {
		h[comporta.HeaderShouldRetry] = []string{"false"}
	} else {
		ms := millis(wait)
		h[comporta.HeaderRetryAfter] = []string{strconv.FormatInt((ms+999)/1000, 10)}
		h[comporta.HeaderRetryAfterMs] = []string{strconv.FormatInt(ms, 10)}
	}
	say(w, a, wait)
}

// say says an answer. A gRPC call that failed is told beside its status when to
// repeat, by Pushback.
func say(w http.ResponseWriter, a *store.Answer, wait time.Duration) {
	h, said := w.Header(), ParseHeader(a.Header)
	for _, prefix := range [...]string{"", http.TrailerPrefix} {
		if code := said[prefix+grpcStatus]; len(code) > 0 && code[0] != "0" {
			said[prefix+retryafter.HeaderPushback] = []string{Pushback(wait)}
		}
	}
	trailers := false
	for name, vs := range said {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			trailers = true
			continue
		}
		h[name] = vs
	}
	h[comporta.HeaderDecision] = []string{DecisionReplayed}
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil // else the server would guess one
	}
	if !trailers && a.Status != http.StatusNoContent && a.Status != http.StatusNotModified {
		h["Content-Length"] = []string{strconv.Itoa(len(a.Body))}
	}
	w.WriteHeader(a.Status)
	if len(a.Body) > 0 {
		_, _ = w.Write(a.Body) // it fails only when the client has left
	}
	if !trailers {
		return
	}
	_ = http.NewResponseController(w).Flush() // else a length would be computed, which leaves no room for trailers
	for name, vs := range said {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			h[name] = vs
		}
	}
}

// OutcomeCompleted is the Outcome of a refusal to say an answer again that was
// given before.
const OutcomeCompleted = "completed"

// NotKept returns the refusal for a repeat of what was done and answered, with an
// answer that was not kept: it was too large, or the end of a conversation.
func NotKept(a *store.Answer) overload.Refusal {
	return overload.Refusal{
		Reason: comporta.IdempotencyAnswerNotKept, Outcome: OutcomeCompleted,
		Detail: fmt.Sprintf("the first request with this key was carried out and answered %d; its answer was too large to keep, or the end of a conversation", a.Status),
	}
}

// event is what a refusal for this reason counts as.
func event(r comporta.Reason) Event {
	switch r {
	case comporta.IdempotencyInProgress:
		return InProgress
	case comporta.IdempotencyPayloadMismatch:
		return Mismatch
	case comporta.IdempotencyOutcomeUnknown:
		return Unknown
	case comporta.IdempotencyKeyMissing:
		return KeyMissing
	case comporta.IdempotencyKeyInvalid:
		return KeyInvalid
	default:
		return StoreRefused
	}
}

// CountRefusal counts a refusal for one of the reasons of idempotency.
func (k *Keeper) CountRefusal(r comporta.Reason) { k.Count(event(r)) }
