package breaker

import "github.com/comporta/comporta"

// Verdict is what an outcome says about the dependency.
type Verdict uint8

// The verdicts.
const (
	Success Verdict = iota // it works, whatever it thinks of the request
	Failure                // it does not
	Ignored                // nothing was learned
)

// JudgeOutcome says what an outcome means to a Breaker.
//
// A dependency that answers 404 or 422 works. One that answers 5xx, answers too
// late or hangs up does not. Nothing is learned from a call that was refused
// before it reached the dependency, or whose caller left; nor from 408 and 429,
// which speak of this caller: the limit that they stand for is not lifted by
// stopping everybody.
func JudgeOutcome(o comporta.Outcome) Verdict {
	switch o.Result {
	case comporta.ResultSuccess, comporta.ResultDeterministic:
		return Success
	case comporta.ResultTimeout, comporta.ResultUnreachable:
		return Failure
	case comporta.ResultFailed:
		switch {
		case o.Status == 408 || o.Status == 429:
			return Ignored
		case o.Status >= 400 && o.Status < 500:
			return Success
		}
		return Failure // 5xx, or a gRPC status under 200
	}
	return Ignored
}
