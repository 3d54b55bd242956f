package gate

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate/ratelimit"
)

// RateLimits bounds what each key may do in how much time. The zero value limits
// nothing and costs nothing.
type RateLimits struct {
	ratelimit.Config // Routes is set by the gate

	// Keys is how many keys may be less than full at the same time; 0 means
	// ratelimit.DefaultKeys. Another number at a reload forgets what keys have used.
	Keys int
}

func (c *RateLimits) none() bool {
	return len(c.Rules) == 0 && len(c.Deny.Networks) == 0 && len(c.Deny.Clients) == 0 && len(c.Deny.Keys) == 0
}

// ratesOf returns the table of rate rules, a new one only if its size changed.
func (s *State) ratesOf(keys int) (*ratelimit.Table, error) {
	if keys == 0 {
		keys = ratelimit.DefaultKeys
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rates == nil || s.rateKeys != keys {
		t, err := ratelimit.NewTable(keys)
		if err != nil {
			return nil, err
		}
		s.rates, s.rateKeys = t, keys
	}
	return s.rates, nil
}

func (g *Gate) compileRates(c *Config) error {
	if c.RateLimits.none() || g.routes == nil {
		return nil
	}
	table, err := g.state.ratesOf(c.RateLimits.Keys)
	if err != nil {
		return err
	}
	rc := c.RateLimits.Config
	rc.Routes = make([]string, len(g.routes.list))
	for i := range g.routes.list {
		rc.Routes[i] = g.routes.list[i].Name
	}
	g.rates, g.stores = table, rc.Stores
	g.limiter, err = ratelimit.New(time.Now(), rc, table)
	return err
}

// RateLimits yields what every rate rule counts: its policies, with how often
// each denied. Their number is that of the configuration, whatever keys exist.
func (g *Gate) RateLimits(yield func(*ratelimit.Policy, ratelimit.Counts) bool) {
	if g.limiter != nil {
		g.limiter.Policies(yield)
	}
}

// sharedLimitsAt is how the shared stores of the rules fare, by their names; nil
// when none is shared.
func (g *Gate) sharedLimitsAt(now time.Time) map[string]ratelimit.SharedStats {
	var stats map[string]ratelimit.SharedStats
	for name, store := range g.stores {
		if s, ok := store.(ratelimit.Shared); ok {
			if stats == nil {
				stats = make(map[string]ratelimit.SharedStats, len(g.stores))
			}
			stats[name] = s.SharedStatsAt(now)
		}
	}
	return stats
}

// limitAt asks the rate rules. They read the head alone, so that what they deny
// costs neither a body nor a place. A shared store bounds its own time: the
// caller's context must not turn a debit into one whose fate nobody knows.
func (d *Decision) limitAt(now time.Time) comporta.Reason {
	if d.verdict == nil {
		d.verdict = new(ratelimit.Verdict)
	}
	d.Limits = d.verdict
	d.gate.limiter.TakeTimesAt(context.Background(), now, d.gate.dearnessAt(now, d.r), d.r, d.Limits)
	return d.Limits.Reason
}

// refundAt gives back what the rate rules charged a request that is refused all
// the same: it did not do what they limit.
func (d *Decision) refundAt(now time.Time) {
	if d.Limits != nil {
		// A store that fails here keeps some units until they are regained, which
		// errs on the side of the limit.
		_ = d.gate.limiter.RefundAt(context.Background(), now, "", d.Limits)
	}
}

// limited reports whether reason is the word of the rate rules. Their instant is
// their own, and takes no place in the calendar.
func (d *Decision) limited(reason comporta.Reason) bool {
	return d.Limits != nil && d.Limits.Reason == reason && reason != comporta.ReasonNone
}

// violated is the names of the rules that denied the request.
func (d *Decision) violated() []string {
	if d.Limits == nil {
		return nil
	}
	return d.Limits.Violated()
}

// writeLimits tells the client how it stands with the rules that were asked. A
// service, or another gateway behind this one, may have said the same of its own
// rules; both fields are lists, so ours is one more line.
func (d *Decision) writeLimits(h http.Header) {
	if d.Limits == nil {
		return
	}
	var scratch [256]byte
	b := d.Limits.AppendPolicy(scratch[:0])
	n := len(b)
	if n == 0 {
		return
	}
	text := string(d.Limits.AppendLimit(b))
	values := [...]string{text[:n], text[n:]}
	h[ratelimit.HeaderRateLimitPolicy] = appendItems(h[ratelimit.HeaderRateLimitPolicy], values[0:1:1])
	h[ratelimit.HeaderRateLimit] = appendItems(h[ratelimit.HeaderRateLimit], values[1:2:2])
}

// appendItems adds ours to what the service said. One item that is none makes a
// whole field unreadable, and earlier drafts wrote other things under the same
// names: such lines give way.
func appendItems(theirs, ours []string) []string {
	for _, line := range theirs {
		if !namedItems(line) {
			return ours
		}
	}
	if len(theirs) == 0 {
		return ours
	}
	return append(slices.Clip(theirs), ours...)
}

// namedItems reports whether a line is a list whose items begin with a name in
// quotes (draft 10 of the httpapi working group, RFC 9651).
func namedItems(s string) bool {
	begin, quoted := true, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			begin, quoted = false, !quoted
		case quoted:
		case c == ',' && !begin:
			begin = true
		case begin && c != ' ' && c != '\t':
			return false
		}
	}
	return !begin && !quoted
}
