package retry

// Reason says why an operation was not tried again. Its String is the label of
// metrics and the word of the test vectors.
type Reason uint8

// The reasons, in the order in which they are looked for. ReasonNone is that of
// success, and of an operation that goes on.
const (
	ReasonNone          Reason = iota
	ReasonContext              // the caller's context has ended
	ReasonServer               // the server said that a repeat cannot help
	ReasonStopped              // the function said so, by Stop
	ReasonPermanent            // a status or fault that another try cannot change
	ReasonTooOld               // the server takes no calls from this version of the client
	ReasonNotIdempotent        // the first attempt may have had its effect
	ReasonDone                 // Check found that the first attempt had its effect
	ReasonNotReplayable        // the body cannot be read a second time
	ReasonNested               // a layer above repeats
	ReasonAttempts             // as many attempts as the policy allows were made
	ReasonTooFar               // the server named a wait above RetryAfterMax
	ReasonDeadline             // the wait and a useful attempt do not fit the time that is left
	ReasonBreaker              // the breaker of the destination is open
	ReasonBulkhead             // too many calls to the destination run already
	ReasonBudget               // the destination's budget of repeats is spent
	numReasons
)

var reasonNames = [numReasons]string{
	"none", "context", "server", "stopped", "permanent", "client_too_old", "not_idempotent", "done",
	"not_replayable", "nested", "attempts", "too_far", "deadline", "breaker", "bulkhead", "budget",
}

func (r Reason) String() string {
	if r >= numReasons {
		return "unknown"
	}
	return reasonNames[r]
}
