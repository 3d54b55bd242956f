package ratelimit

import (
	"errors"
	"fmt"
)

// Rule limits the requests that match it, by key. With a Limit and a Quota both
// must allow a request; with neither the rule denies everything that it matches.
//
// A claimed identity costs nothing to invent, so callers that are not believed
// (see comporta.Class) are charged three times over, all or nothing: by key, by
// address, and by subnet.
type Rule struct {
	Name  string // on the wire, in metrics and logs; required, unique, up to 48 characters
	Match Match
	Key   Key // zero: the client
	Limit Limit
	Quota Quota
	Cost  int64 // units that one request takes; 0 means 1
	// Network bounds what all keys of one address (IPv4) or /64 together get
	// while they are not believed; zero means Limit: inventing keys gains nothing.
	// It has no effect when the caller cannot choose the key.
	Network Limit
	// Subnet bounds what one /24 or /48 gets in all, of callers that are not
	// believed; zero means 16 times Limit.
	Subnet Limit
	// Unseen bounds all keys together of callers that are neither believed nor
	// known to have used the rule lately; zero: no bound while the table has room.
	Unseen Limit
	// NoAggregates leaves Network and Subnet away: for callers of one's own.
	NoAggregates bool
	Shadow       bool // count what would be denied, and deny nothing
	Penalty      bool // denied requests count too: who goes on at full speed stays out
	// Store names one of Config.Stores; empty means the table.
	Store     string
	OnFailure FailureMode // when the store cannot answer
	// LocalShare is the part of the rule that this process grants by itself under
	// FailLocal: 1/N on N nodes. 0 means 1.
	LocalShare float64
}

const (
	maxRuleName   = 48 // leaves room for what is added in the names of aggregates
	subnetFactor  = 16
	networkSuffix = "/network"
	subnetSuffix  = "/subnet"
	quotaSuffix   = "/quota"
	localSuffix   = "/local"
)

// rule is a Rule made ready.
type rule struct {
	Rule
	match matcher
	store int // 0 is the table
	// The policies of the rule; nil where there is none.
	byKey, quotaByKey         *charged
	byNetwork, quotaByNetwork *charged
	bySubnet                  *charged
}

// charged is a policy and its stand-in for when its store is away.
type charged struct {
	policy *Policy
	local  *Policy // nil unless FailLocal
}

func (r Rule) compile(routes []string) (*rule, error) {
	var problems []error
	c := &rule{Rule: r}
	if c.Cost == 0 {
		c.Cost = 1
	}
	if c.LocalShare == 0 {
		c.LocalShare = 1
	}
	if !validName(r.Name) || len(r.Name) > maxRuleName {
		problems = append(problems, fmt.Errorf("name: use 1 to %d letters, digits and any of -._/", maxRuleName))
	}
	if c.Cost < 0 {
		problems = append(problems, fmt.Errorf("cost %d is negative: leave it out to mean 1", c.Cost))
	}
	if !(c.LocalShare > 0 && c.LocalShare <= 1) {
		problems = append(problems, fmt.Errorf("local share %v: set a fraction above 0, up to 1", c.LocalShare))
	}
	var err error
	if c.match, err = r.Match.compile(routes); err != nil {
		problems = append(problems, fmt.Errorf("match: %w", err))
	}
	problems = append(problems, c.makePolicies())
	if err := errors.Join(problems...); err != nil {
		return nil, fmt.Errorf("ratelimit: rule %q: %w", r.Name, err)
	}
	return c, nil
}

// makePolicies splits the rule into what is judged.
func (r *rule) makePolicies() error {
	var problems []error
	add := func(suffix string, l Limit, q Quota) *charged {
		c, err := r.charged(suffix, l, q)
		if err != nil {
			problems = append(problems, err)
		}
		return c
	}
	hasLimit := !r.Limit.none() || r.Quota.none()
	if hasLimit {
		r.byKey = add("", r.Limit, Quota{})
	}
	if !r.Quota.none() {
		r.quotaByKey = add(quotaSuffix, Limit{}, r.Quota)
	}
	if r.NoAggregates {
		return errors.Join(problems...)
	}
	if network := orElse(r.Network, r.Limit); r.Key.inventable() {
		if !network.none() {
			r.byNetwork = add(networkSuffix, network, Quota{})
		}
		if !r.Quota.none() {
			r.quotaByNetwork = add(networkSuffix+quotaSuffix, Limit{}, r.Quota)
		}
	}
	if subnet := orElse(r.Subnet, r.Limit.times(subnetFactor)); !subnet.none() {
		r.bySubnet = add(subnetSuffix, subnet, Quota{})
	}
	return errors.Join(problems...)
}

func orElse(l, other Limit) Limit {
	if l.none() {
		return other
	}
	return l
}

// times is a limit n times as large, or none where that cannot be written.
func (l Limit) times(n int64) Limit {
	if l.check() != nil || l.Rate.Count > maxCount/n || l.Burst > maxCount/n {
		return Limit{}
	}
	many := Limit{Rate: Rate{Count: l.Rate.Count * n, Per: l.Rate.Per}, Burst: l.Burst * n}
	if many.check() != nil {
		return Limit{}
	}
	return many
}

func (r *rule) charged(suffix string, l Limit, q Quota) (*charged, error) {
	p := Policy{
		Name: r.Name + suffix, Limit: l, Quota: q, Shadow: r.Shadow, Penalty: r.Penalty, OnFailure: r.OnFailure,
	}
	if suffix == "" || suffix == quotaSuffix && r.Limit.none() {
		p.Unseen = r.Unseen
	}
	main, err := NewPolicy(p)
	if err != nil || r.Store == "" || r.OnFailure != FailLocal {
		return &charged{policy: main}, err
	}
	p.Name += localSuffix
	p.Limit, p.Quota = l.share(r.LocalShare), q.share(r.LocalShare)
	local, err := NewPolicy(p)
	return &charged{policy: main, local: local}, err
}

// share is a fraction of a limit, at least one unit of burst: the interval
// between units grows, since counts are whole.
func (l Limit) share(f float64) Limit {
	if f == 1 || l.size() == 0 {
		return l
	}
	const grain = 1000 // so that a third of 1/s is 333 in 1,000 s
	part := Limit{
		Rate:  Rate{Count: int64(float64(l.Rate.Count) * f * grain), Per: l.Rate.Per * grain},
		Burst: max(int64(float64(l.size())*f), 1),
	}
	if part.Rate.Per > maxPer || part.Rate.Per/grain != l.Rate.Per || l.Rate.Count > maxCount/grain {
		part.Rate = Rate{Count: int64(float64(l.Rate.Count) * f), Per: l.Rate.Per}
	}
	return part
}

func (q Quota) share(f float64) Quota {
	if q.Units > 0 {
		q.Units = max(int64(float64(q.Units)*f), 1)
	}
	return q
}
