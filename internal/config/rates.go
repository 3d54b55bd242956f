package config

import (
	"errors"
	"fmt"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate/ratelimit"
)

// Rule is the rule in the words of the limiter. The error is nil after Load.
func (r *RateLimit) Rule(routes []Route) (ratelimit.Rule, error) {
	rule := ratelimit.Rule{
		Name: r.Name, Cost: int64(r.Cost), Shadow: r.Shadow, Penalty: r.Penalty,
		Match: ratelimit.Match{Path: r.Match.Path, Headers: r.Match.Headers},
	}
	// The limiter tells nil, any, from empty, none.
	rule.Match.Hosts = append(rule.Match.Hosts, r.Match.Hosts...)
	rule.Match.Methods = append(rule.Match.Methods, r.Match.Methods...)
	w := rateWords{}
	rule.Key = w.key(r.Key)
	rule.Limit = ratelimit.Limit{Rate: w.rate(r.Rate), Burst: int64(r.Burst)}
	rule.Network.Rate, rule.Subnet.Rate, rule.Unseen.Rate = w.rate(r.Network), w.rate(r.Subnet), w.rate(r.Unseen)
	rule.OnFailure = w.failure(r.OnStoreFailure)
	rule.Quota = w.quota(r.Quota)
	rule.Match.Classes = w.classes(r.Match.Classes)
	rule.Match.Routes = w.routes(r.Match.Routes, routes)
	if w.err != nil {
		return rule, fmt.Errorf("config: rate limit %q: %w", r.Name, w.err)
	}
	return rule, nil
}

// rateWords turns words of a rule into values, and keeps what went wrong. Load
// has checked the words; a RateLimit that was made otherwise may hold any.
type rateWords struct{ err error }

func (w *rateWords) note(err error) { w.err = errors.Join(w.err, err) }

func (w *rateWords) key(parts []string) ratelimit.Key {
	k, err := ratelimit.ParseKey(parts...)
	w.note(err)
	return k
}

func (w *rateWords) rate(text string) ratelimit.Rate {
	if text == "" {
		return ratelimit.Rate{}
	}
	r, err := ratelimit.ParseRate(text)
	w.note(err)
	return r
}

func (w *rateWords) failure(text string) ratelimit.FailureMode {
	m, err := ratelimit.ParseFailureMode(text)
	w.note(err)
	return m
}

func (w *rateWords) quota(q *Quota) ratelimit.Quota {
	if q == nil {
		return ratelimit.Quota{}
	}
	period, err := ratelimit.ParsePeriod(q.Per)
	w.note(err)
	zone, err := time.LoadLocation(q.TimeZone)
	w.note(err)
	return ratelimit.Quota{Units: int64(q.Units), Period: period, Location: zone, Fixed: q.Fixed}
}

func (w *rateWords) classes(names []string) []comporta.Class {
	var list []comporta.Class
	for _, name := range names {
		for c := comporta.ClassAnonymous; c <= comporta.ClassVerified; c++ {
			if c.String() == name {
				list = append(list, c)
			}
		}
	}
	return list
}

// routes names by label what a rule may name by pattern too.
func (w *rateWords) routes(names []string, routes []Route) []string {
	var list []string
	for _, name := range names {
		if r := routeOf(name, routes); r != nil {
			name = r.Label()
		}
		list = append(list, name)
	}
	return list
}
