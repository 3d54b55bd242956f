package comporta

import "time"

// Action says what becomes of a request.
type Action uint8

// The actions.
const (
	ActionAdmit  Action = iota
	ActionRefuse        // answered by the gate, with a Reason
	ActionReplay        // answered from memory: a hopeless repeat, later a finished idempotency key
	ActionWait          // stands in the queue; the face calls Await
	numActions
)

var actionNames = [numActions]string{"admit", "refuse", "replay", "wait"}

func (a Action) String() string { return nameOf(actionNames[:], int(a)) }

// Decision is what the gate said of one request.
type Decision struct {
	Action Action
	Reason Reason // ReasonNone when admitted
	// WouldRefuse is the reason in observe mode: the request was let in all the same.
	WouldRefuse Reason
	// Detail says more of the Reason; DetailNone: nothing.
	Detail Detail
	// Due is the instant at which a refused client may return; zero when the
	// refusal is not retryable. Wait is Due minus the time of the decision.
	Due  time.Time
	Wait time.Duration
	// Queued is how long the request stood in the queue before this decision.
	Queued time.Duration
}

// Refused reports whether the gate answers in the service's place with a refusal.
func (d *Decision) Refused() bool { return d.Action == ActionRefuse }

// Result says what became of a request, as far as a later repeat of it needs to know.
type Result uint8

// The results. ResultPending is that of a request still running.
const (
	ResultPending       Result = iota
	ResultSuccess              // 2xx, 3xx
	ResultFailed               // an answer that another try may change
	ResultDeterministic        // an answer that another try cannot change: 400, 404, 405, 410, 413-415, 422, 501
	ResultRefused              // refused by the gate
	ResultTimeout              // the service did not answer in time
	ResultAbandoned            // the caller left first
	ResultUnreachable          // the service could not be reached, or hung up without an answer
	numResults
)

var resultNames = [numResults]string{
	"pending", "success", "failed", "deterministic", "refused", "timeout", "abandoned", "unreachable",
}

func (r Result) String() string { return nameOf(resultNames[:], int(r)) }

// ResultOf reads a final status code. 2xx, 3xx and 101 are success; the
// statuses that say the same to every repeat are deterministic; the rest failed.
func ResultOf(status int) Result {
	switch {
	case status >= 100 && status < 400:
		return ResultSuccess
	case Deterministic(status):
		return ResultDeterministic
	}
	return ResultFailed
}

// Deterministic reports whether a status says that the same request will be
// answered the same way again.
func Deterministic(status int) bool {
	switch status {
	case 400, 404, 405, 410, 413, 414, 415, 422, 501:
		return true
	}
	return false
}

// ResultOfGRPC reads the status of a gRPC call that was answered.
func ResultOfGRPC(code int) Result {
	switch {
	case code == 0:
		return ResultSuccess
	case DeterministicGRPC(code):
		return ResultDeterministic
	}
	return ResultFailed
}

// DeterministicGRPC is Deterministic for a gRPC status: INVALID_ARGUMENT,
// NOT_FOUND, OUT_OF_RANGE and UNIMPLEMENTED.
func DeterministicGRPC(code int) bool { return code == 3 || code == 5 || code == 11 || code == 12 }

// Outcome is what the service made of an admitted request.
type Outcome struct {
	Status  int // final status; 0 when there was none
	Result  Result
	Latency time.Duration // from admission to the end of the answer
	// Stream marks an exchange that left the gate as a stream: its duration says
	// nothing about the service.
	Stream bool
}
