package config

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate/ratelimit"
)

// What the words of a rule become.
func TestRateLimitRule(t *testing.T) {
	c := mustLoad(t, `
routes: [{match: "POST /orders/{id}", name: orders}]
rate_limits:
  - name: all
    match: {route: ["POST /orders/{id}", other], host: a.example, path: /x, method: GET, header: {X-Plan: free}, class: proven}
    key: client
    rate: 100/s
    burst: 200
    cost: 3
    quota: {units: 1000, per: week, time_zone: America/Sao_Paulo, fixed: true}
    network: 1/s
    subnet: 2/s
    unseen: 3/s
    penalty: true
    on_store_failure: closed
    shadow: true
  - {name: least, rate: 5/10m}
`, Input{})
	got, err := c.RateLimits[0].Rule(c.Routes)
	if err != nil {
		t.Fatal(err)
	}
	second := func(n int64) ratelimit.Limit {
		return ratelimit.Limit{Rate: ratelimit.Rate{Count: n, Per: time.Second}}
	}
	m := got.Match
	if !slices.Equal(m.Routes, []string{"orders", "other"}) || !slices.Equal(m.Hosts, []string{"a.example"}) || m.Path != "/x" ||
		!slices.Equal(m.Methods, []string{"GET"}) || m.Headers["X-Plan"] != "free" || !slices.Equal(m.Classes, []comporta.Class{comporta.ClassProven}) {
		t.Errorf("match: %+v", m)
	}
	limit := second(100)
	limit.Burst = 200
	if got.Name != "all" || got.Limit != limit || got.Cost != 3 || got.Network != second(1) || got.Subnet != second(2) || got.Unseen != second(3) ||
		!got.Penalty || !got.Shadow || got.OnFailure != ratelimit.FailClosed || got.Store != "" {
		t.Errorf("rule: %+v", got)
	}
	if q := got.Quota; q.Units != 1000 || q.Period != ratelimit.Week || q.Location.String() != "America/Sao_Paulo" || !q.Fixed {
		t.Errorf("quota: %+v", q)
	}
	least, err := c.RateLimits[1].Rule(c.Routes)
	if err != nil || least.Limit != (ratelimit.Limit{Rate: ratelimit.Rate{Count: 5, Per: 10 * time.Minute}}) || least.Match.Routes != nil || least.Match.Hosts != nil ||
		least.Match.Methods != nil || least.Match.Classes != nil ||
		least.OnFailure != ratelimit.FailLocal || least.Cost != 1 || least.Quota != (ratelimit.Quota{}) {
		t.Errorf("least: %+v, %v", least, err)
	}
}

// A rule that no file was read into says what is wrong with it, all at once.
func TestRateLimitRuleOfNoFile(t *testing.T) {
	r := RateLimit{Name: "made", Key: []string{"who"}, Rate: "often", OnStoreFailure: "pray", Quota: &Quota{Per: "eon", TimeZone: "Nowhere/At_All"}}
	_, err := r.Rule(nil)
	for _, want := range []string{"made", "who", "often", "pray", "eon", "Nowhere"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not told: %v", want, err)
		}
	}
}

func TestRateLimitsAreBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString("rate_limits:\n")
	for range 201 {
		b.WriteString("  - {name: x, rate: 1/s}\n")
	}
	_, _, problems := loadText(t, b.String(), Input{WithoutUpstream: true})
	if len(problems) != 1 || problems[0].Path != "rate_limits" {
		t.Errorf("got %v", problems)
	}
}
