package gate

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// Policy is the remote switch in brief: it rides on every refusal while it
// lives, so that clients which understand it calm down within seconds.
type Policy struct {
	MaxAttempts int           `json:"max"`    // attempts in all; 1 = no retry
	MinWait     time.Duration `json:"min_ns"` // shortest wait between attempts
	Until       time.Time     `json:"until"`
}

const maxPolicyTTL = 24 * time.Hour

func (p *Policy) validate(now time.Time) error {
	var problems []error
	if p.MaxAttempts < 1 || p.MaxAttempts > 10 {
		problems = append(problems, fmt.Errorf("policy: max %d is not within 1 (no retry) and 10", p.MaxAttempts))
	}
	if p.MinWait < 0 || p.MinWait > time.Hour {
		problems = append(problems, fmt.Errorf("policy: min %v is not within 0 and 1h", p.MinWait))
	}
	if ttl := p.Until.Sub(now); ttl <= 0 || ttl > maxPolicyTTL {
		problems = append(problems, fmt.Errorf("policy: ttl %v is not within 0 and %v", ttl.Round(time.Second), maxPolicyTTL))
	}
	return errors.Join(problems...)
}

// HeaderAt renders the Retry-Policy header; its ttl shrinks as the policy ages,
// so that a client which hears of it late does not keep it longer.
func (p *Policy) HeaderAt(now time.Time) string {
	ttl := (p.Until.Sub(now) + time.Second - 1) / time.Second
	return fmt.Sprintf("max=%d;min-ms=%d;ttl=%d", p.MaxAttempts, p.MinWait.Milliseconds(), ttl)
}

// policySwitch holds the policy that is set, and its header for the current
// second: refusals are many and the text changes once a second.
type policySwitch struct {
	policy atomic.Pointer[Policy]
	header atomic.Pointer[renderedPolicy]
}

type renderedPolicy struct {
	second int64
	text   string
}

func (s *policySwitch) setAt(now time.Time, p Policy) error {
	if err := p.validate(now); err != nil {
		return err
	}
	s.header.Store(nil)
	s.policy.Store(&p)
	return nil
}

func (s *policySwitch) clear() { s.policy.Store(nil) }

func (s *policySwitch) policyAt(now time.Time) (Policy, bool) {
	p := s.policy.Load()
	if p == nil || !now.Before(p.Until) {
		return Policy{}, false
	}
	return *p, true
}

func (s *policySwitch) headerAt(now time.Time) string {
	p := s.policy.Load()
	if p == nil || !now.Before(p.Until) {
		return ""
	}
	second := now.Unix()
	if h := s.header.Load(); h != nil && h.second == second {
		return h.text
	}
	h := &renderedPolicy{second, p.HeaderAt(now)}
	s.header.Store(h)
	return h.text
}
