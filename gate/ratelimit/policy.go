package ratelimit

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/comporta/comporta/internal/hash"
)

// FailureMode says what becomes of a request when the store of its rule cannot
// answer.
type FailureMode uint8

// The failure modes.
const (
	FailOpen   FailureMode = iota // admit
	FailClosed                    // refuse with comporta.LimiterUnavailable
	FailLocal                     // judge by this process's own table, by a share of the rule
	numFailureModes
)

var failureNames = [numFailureModes]string{"open", "closed", "local"}

// String returns the name that ParseFailureMode reads.
func (m FailureMode) String() string {
	if m < numFailureModes {
		return failureNames[m]
	}
	return "unknown"
}

// ParseFailureMode reads "open", "closed" or "local".
func ParseFailureMode(s string) (FailureMode, error) {
	for m := range numFailureModes {
		if failureNames[m] == s {
			return m, nil
		}
	}
	return FailOpen, fmt.Errorf("ratelimit: failure mode %q is unknown: use open, closed or local", s)
}

// Policy is one limit or one quota under a name, made ready to judge. A Rule
// becomes up to three of them: its limit, its quota, and the limit of subnets.
//
// The exported fields are for stores to read. After Table.Prepare nothing of a
// policy changes but its counts.
type Policy struct {
	Name  string // unique in a table; part of every key
	Limit Limit  // zero when the policy is a quota
	Quota Quota
	// Shadow policies charge and count, and never deny.
	Shadow bool
	// Penalty charges denied requests as well, up to one more burst.
	Penalty bool
	// Unseen bounds all keys together that the table does not hold; zero: no bound.
	Unseen Limit
	// OnFailure is for stores that can fail.
	OnFailure FailureMode

	units     int64
	window    time.Duration
	gcra      plan
	quota     *quotaPlan // nil for a limit
	aggregate plan       // of unseen keys, or of those that found no room
	table     *Table     // that has prepared it
	start     hash.Sum   // beginning of the names of its keys
	slot      *slot
	family    uint8
}

// NewPolicy checks a policy and makes it ready. It takes the exported fields of
// p and reports all their faults.
func NewPolicy(p Policy) (*Policy, error) {
	q := &Policy{
		Name: p.Name, Limit: p.Limit, Quota: p.Quota, Shadow: p.Shadow, Penalty: p.Penalty,
		Unseen: p.Unseen, OnFailure: p.OnFailure,
	}
	var problems []error
	if !validName(p.Name) {
		problems = append(problems, fmt.Errorf("name %q: use 1 to %d letters, digits and any of -._/", p.Name, maxName))
	}
	if !p.Limit.none() && !p.Quota.none() {
		problems = append(problems, errors.New("limit and quota are both set: make two policies"))
	}
	problems = append(problems, p.Limit.check(), p.Quota.check())
	if err := p.Unseen.check(); err != nil {
		problems = append(problems, fmt.Errorf("unseen: %w", err))
	}
	if p.OnFailure >= numFailureModes {
		problems = append(problems, fmt.Errorf("failure mode %d is unknown", p.OnFailure))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, fmt.Errorf("ratelimit: policy %q: %w", p.Name, err)
	}
	q.gcra, q.units, q.window = newPlan(p.Limit), p.Limit.size(), p.Limit.Window()
	shared := p.Limit
	if !p.Quota.none() {
		q.quota, q.family = newQuotaPlan(p.Quota), quotas
		q.units, q.window = p.Quota.Units, p.Quota.Period.length()
		shared = Limit{Rate: Rate{q.units, q.window}}
	}
	if !p.Unseen.none() {
		shared = p.Unseen
	}
	q.aggregate = newPlan(shared)
	return q, nil
}

const maxName = 64

// validName allows what needs no escape in a structured field, a metric label or
// a path.
func validName(s string) bool {
	if s == "" || len(s) > maxName {
		return false
	}
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && c != '-' && c != '.' && c != '_' && c != '/' {
			return false
		}
	}
	return true
}

// Units is the q of RateLimit-Policy: the burst of a limit, or the quota.
func (p *Policy) Units() int64 { return p.units }

// Window is the w of RateLimit-Policy: how long an empty bucket takes to fill,
// or about how long a quota lasts.
func (p *Policy) Window() time.Duration { return p.window }

// judgement is what a request would do to one key.
type judgement struct {
	after uint64        // the state once charged
	kept  uint64        // the state if not: what it was, unless a clock was at fault
	wait  time.Duration // until it may be charged; 0: now
}

func (p *Policy) judge(now stamp, was uint64, n int64) judgement {
	if p.quota != nil {
		return p.quota.judge(now, was, n)
	}
	return p.gcra.judge(now, was, n)
}

func (p *Policy) charge(now stamp, was uint64, n int64) uint64 {
	if p.quota != nil {
		return p.quota.charge(now, was, n)
	}
	return p.gcra.charge(now, was, n)
}

func (p *Policy) refund(now stamp, was uint64, n int64) uint64 {
	if p.quota != nil {
		return p.quota.refund(now, was, n)
	}
	return p.gcra.refund(now, was, n)
}

func (p *Policy) report(now stamp, was uint64) (int64, time.Duration) {
	if p.quota != nil {
		return p.quota.report(now, was)
	}
	return p.gcra.report(now, was)
}

// dead returns the bound below which a state equals absence.
func dead(family uint8, now stamp) uint64 {
	if family == quotas {
		return (uint64(now>>fracBits)/hourMicros + 1) << deathShift
	}
	return uint64(now) + 1
}

// slot is what a table remembers of a policy from one configuration to the next.
type slot struct {
	number   uint16
	policy   *Policy // the last one prepared under the name; under Table.prepare
	denied   atomic.Uint64
	shadowed atomic.Uint64
	crowded  atomic.Uint64
	total    atomic.Uint64 // arrival time of the aggregate
}

// Counts is what a policy did, across reloads.
type Counts struct {
	Denied    uint64 // requests that it denied
	WouldDeny uint64 // requests that it would have denied, had it not been a shadow
	Crowded   uint64 // requests that were judged by the aggregate because the table had no room
}

// Counts reads the policy's counters; zero before Table.Prepare.
func (p *Policy) Counts() Counts {
	if p.slot == nil {
		return Counts{}
	}
	return Counts{Denied: p.slot.denied.Load(), WouldDeny: p.slot.shadowed.Load(), Crowded: p.slot.crowded.Load()}
}

// costOf is times a cost, at most a full bucket, and no less than once the cost.
func (p *Policy) costOf(cost, times int64) int64 {
	switch {
	case times == 0:
		return 0
	case cost > p.Units()/times:
		return max(cost, p.Units())
	}
	return cost * times
}

// takeAggregate charges the bucket that many keys share. It returns how long to
// wait when it has nothing left.
func (p *Policy) takeAggregate(now stamp, n int64) (wait time.Duration, ok bool) {
	if n > p.aggregate.burst {
		return max(p.Unseen.Window(), time.Second), false // no waiting helps here, but the key may find room later
	}
	for {
		was := p.slot.total.Load()
		j := p.aggregate.judge(now, was, n)
		next := j.after
		if j.wait > 0 {
			next = j.kept
		}
		if next == was || p.slot.total.CompareAndSwap(was, next) {
			return j.wait, j.wait == 0
		}
	}
}

// returnAggregate undoes a charge whose request was denied after all.
func (p *Policy) returnAggregate(now stamp, n int64) {
	for {
		was := p.slot.total.Load()
		if p.slot.total.CompareAndSwap(was, p.aggregate.refund(now, was, n)) {
			return
		}
	}
}
