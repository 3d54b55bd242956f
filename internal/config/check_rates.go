package config

import (
	"fmt"
	"strings"
	"time"

	"github.com/comporta/comporta/gate/ratelimit"
)

// checkRates looks for rules that contradict themselves or each other.
func (l *loader) checkRates() {
	const most = ratelimit.MaxPolicies / 5 // a rule makes up to five policies
	rules := l.c.RateLimits
	if len(rules) > most {
		l.wrongf("rate_limits", "one rule has a bucket for each key: {key: [client, route]}", "%d rules are more than %d", len(rules), most)
		return
	}
	names := map[string]int{}
	for i := range rules {
		path, r := fmt.Sprintf("rate_limits[%d]", i), &rules[i]
		if l.sound(path + ".name") {
			if first, taken := names[r.Name]; taken {
				l.wrongf(path+".name", "choose another", "rate_limits[%d] has this name", first)
			}
			names[r.Name] = i
		}
		l.checkRateRoutes(path+".match.route", r.Match.Routes)
		if l.sound(path) {
			l.checkRate(path, r)
		}
	}
}

func (l *loader) checkRateRoutes(path string, names []string) {
	if !l.sound(path) || !l.routesNamed() {
		return
	}
	for i, name := range names {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch r := routeOf(name, l.c.Routes); {
		case r == nil && name != otherRoute:
			l.wrongf(at, "name one of routes, or use match: {method: …, path: …}", "%s is no route", show(name))
		case r != nil && r.Exempt:
			l.wrongf(at, "remove it, or exempt", "the route is exempt, so the rule never sees it")
		}
	}
}

const otherRoute = "other"

// routeOf finds a route by its name or by its pattern.
func routeOf(name string, routes []Route) *Route {
	for i := range routes {
		if routes[i].Label() == name {
			return &routes[i]
		}
	}
	for i := range routes {
		if routes[i].Match == name {
			return &routes[i]
		}
	}
	return nil
}

// checkRate judges one rule whose words are all right.
func (l *loader) checkRate(path string, r *RateLimit) {
	rule, err := r.Rule(nil)
	if err != nil {
		l.wrongf(path, "", "%s", err)
		return
	}
	limit, quota := rule.Limit, rule.Quota
	switch {
	case r.Rate == "" && r.Quota == nil:
		l.wrongf(path, "rate: 100/s, or quota: {units: 10000, per: day}", "has neither a rate nor a quota, and would deny everything")
		return
	case r.Rate == "" && r.Burst != 0:
		l.wrongf(path+".burst", "remove it, or add a rate", "a bucket that regains nothing is no limit: the quota says how much there is")
		return
	}
	if r.Rate != "" {
		if _, err := ratelimit.NewPolicy(ratelimit.Policy{Name: r.Name, Limit: limit}); err != nil {
			l.wrongf(path+".burst", "what is regained this slowly is a quota", "%s", strings.TrimPrefix(err.Error(), fmt.Sprintf("ratelimit: policy %q: ", r.Name)))
			return
		}
		size := limit.Burst
		if size == 0 {
			size = limit.Rate.Count
		}
		if size > 0 && rule.Cost > size {
			l.wrongf(path+".cost", "lower it, or raise the burst", "%d is more than a full bucket, %d, so no request could ever pass", rule.Cost, size)
		}
	}
	if r.Quota != nil && rule.Cost > quota.Units {
		l.wrongf(path+".cost", "lower it, or raise the quota", "%d is more than the whole quota, %d, so no request could ever pass", rule.Cost, quota.Units)
	}
}

func checkRule(text string) *fault {
	if !nameForm.MatchString(text) || len(text) > 48 {
		return &fault{show(text) + " is not the name of a rule", "up to 48 letters, digits, dots, dashes and underscores"}
	}
	return nil
}

func checkRateText(text string) *fault {
	const hint = "a count, a slash and a unit out of s, m, h and d: 100/s, 5/10m"
	if _, err := ratelimit.ParseRate(text); err != nil {
		return &fault{show(text) + " is not a rate", hint}
	}
	return nil
}

func checkRateKey(text string) *fault {
	const hint = "client, network, subnet, header:NAME, fingerprint, route, method, host, path, class or version; alternatives by |"
	if _, err := ratelimit.ParseKey(text); err != nil {
		return &fault{show(text) + " is no part of a key", hint}
	}
	return nil
}

func checkRateStore(text string) *fault {
	switch text {
	case StoreLocal, StoreRedis:
		return nil
	}
	return &fault{show(text) + " is not a store of rate limits", "local or redis"}
}

func checkRateHost(text string) *fault {
	if name := strings.TrimPrefix(text, "*."); !hostname.MatchString(name) || text != strings.ToLower(text) {
		return &fault{show(text) + " is not a host", "a name in lower case without port, or *.example.com for every name below one"}
	}
	return nil
}

func checkRatePath(text string) *fault {
	if !strings.HasPrefix(text, "/") || strings.ContainsAny(text, " \t") {
		return &fault{show(text) + " does not begin with a slash", "match: {method: POST, host: api.example.com, path: /orders/{id}}"}
	}
	return checkPattern(text)
}

func checkMethod(text string) *fault {
	if !headerToken.MatchString(text) || text != strings.ToUpper(text) {
		return &fault{show(text) + " is no method: methods are upper case", "GET, POST, …"}
	}
	return nil
}

func checkHeaderName(text string) *fault {
	if !headerToken.MatchString(text) {
		return &fault{show(text) + " is not the name of a header", "such as X-Plan"}
	}
	return nil
}

func checkZone(text string) *fault {
	if _, err := time.LoadLocation(text); err != nil || text == "" {
		return &fault{show(text) + " is not a time zone", "as the IANA database names it: America/Sao_Paulo, UTC"}
	}
	return nil
}
