package ratelimit

import (
	"strconv"
	"time"

	"github.com/comporta/comporta"
)

// Verdict is what the rules said of one request. It may be used again; it
// belongs to one goroutine at a time. The zero value is ready.
type Verdict struct {
	Reason comporta.Reason // ReasonNone: the request may pass
	// Stop: coming back does not help. The caller is on the list of the denied,
	// or the cost is above the burst.
	Stop bool
	// Listed: one of the two lists decided, and no rule was asked.
	Listed bool
	// Wait is the time until the rules that denied allow the request, if nobody
	// else spends; 0 when it may pass, and when Stop is set.
	Wait time.Duration

	violated []string
	items    []item
	claims   []claim
	debits   []Debit
	results  []Result
	keys     []byte // of all debits, side by side
	granted  int    // debits that were charged
	limiter  *Limiter
}

// claim says where a debit comes from.
type claim struct {
	rule    *rule
	charged *charged
	from    int // of its key in keys
	to      int
}

// item is one line of what the client is told.
type item struct {
	name      string
	units     int64
	window    time.Duration
	remaining int64
	next      time.Duration
}

// unavailableWait is what a client is told when a store is away: long enough for
// it to come back.
const unavailableWait = time.Second

func (v *Verdict) reset(l *Limiter) {
	*v = Verdict{
		limiter: l, violated: v.violated[:0], items: v.items[:0], claims: v.claims[:0],
		debits: v.debits[:0], results: v.results[:0], keys: v.keys[:0],
	}
}

// add files what a rule charges r with.
func (v *Verdict) add(rule *rule, r *comporta.Request, route string, times int64) {
	from := len(v.keys)
	v.keys = rule.Key.AppendTo(v.keys, r, route)
	v.claim(rule, rule.byKey, from, times, r)
	v.claim(rule, rule.quotaByKey, from, times, r)
	if r.Client.Class.Believed() {
		return
	}
	if rule.byNetwork != nil || rule.quotaByNetwork != nil {
		from = len(v.keys)
		v.keys = appendNetwork(v.keys, r)
		v.claim(rule, rule.byNetwork, from, times, r)
		v.claim(rule, rule.quotaByNetwork, from, times, r)
	}
	if addr := addressOf(r); rule.bySubnet != nil && addr.IsValid() {
		from = len(v.keys)
		v.keys = appendPrefix(append(v.keys, byte(byNetwork)), addr, subnetBits4, subnetBits6)
		v.claim(rule, rule.bySubnet, from, times, r)
	}
}

func (v *Verdict) claim(rule *rule, c *charged, from int, times int64, r *comporta.Request) {
	if c == nil {
		return
	}
	cost := rule.Cost
	if times != 1 {
		cost = c.policy.costOf(cost, times)
	}
	v.claims = append(v.claims, claim{rule, c, from, len(v.keys)})
	v.debits = append(v.debits, Debit{Policy: c.policy, Cost: cost, Believed: r.Client.Class.Believed()})
	v.results = append(v.results, Result{})
}

// bind hands out the keys, once their buffer grows no more.
func (v *Verdict) bind() {
	for i := range v.claims {
		c := &v.claims[i]
		v.debits[i].Key = v.keys[c.from:c.to:c.to]
	}
}

// endOfStore is the end of the debits that go to the same store.
func (v *Verdict) endOfStore(from int) int {
	store, to := v.claims[from].rule.store, from+1
	for to < len(v.claims) && v.claims[to].rule.store == store {
		to++
	}
	return to
}

// refuse says why, of the debits of the store that denied.
func (v *Verdict) refuse(from, to int) {
	v.Reason, v.granted = comporta.LimiterUnavailable, 0
	for i := from; i < to; i++ {
		r, p := &v.results[i], v.debits[i].Policy
		if r.Allowed || p.Shadow {
			continue
		}
		name := v.claims[i].rule.Name
		if n := len(v.violated); n == 0 || v.violated[n-1] != name {
			v.violated = append(v.violated, name)
		}
		switch {
		case r.Never:
			v.Stop = true
		case !r.Unavailable:
			v.Reason = comporta.RateLimited
			v.Wait = max(v.Wait, r.Wait)
		default:
			v.Wait = max(v.Wait, unavailableWait)
		}
	}
	if v.Stop {
		v.Reason, v.Wait = comporta.CostExceedsBurst, 0
	}
}

// report gathers what the client is told: one item a rule's limit or quota, with the
// least that is left of it. Shadows say nothing: what they count is no promise.
func (v *Verdict) report() {
	for i := range v.claims {
		c, res := &v.claims[i], &v.results[i]
		if c.rule.Shadow || v.Reason == comporta.LimiterUnavailable {
			continue
		}
		p := c.charged.policy
		if c.charged == c.rule.byKey || c.charged == c.rule.quotaByKey {
			v.items = append(v.items, item{p.Name, p.Units(), p.Window(), res.Remaining, res.Next})
			continue
		}
		main := &v.items[len(v.items)-1]
		if c.rule.byKey != nil && c.rule.quotaByKey != nil && p.quota == nil {
			main = &v.items[len(v.items)-2]
		}
		if res.Remaining < main.remaining {
			main.remaining, main.next = res.Remaining, res.Next
		}
	}
}

// Violated is the names of the rules that denied, valid until v is used again.
func (v *Verdict) Violated() []string { return v.violated }

// AppendPolicy appends the value of the field RateLimit-Policy (draft 10 of the
// httpapi working group): what the rules allow. It appends nothing when no rule
// was asked.
func (v *Verdict) AppendPolicy(dst []byte) []byte {
	for i := range v.items {
		it := &v.items[i]
		dst = it.appendName(dst, i)
		dst = strconv.AppendInt(append(dst, ";q="...), it.units, 10)
		if w := seconds(it.window); w > 0 {
			dst = strconv.AppendInt(append(dst, ";w="...), w, 10)
		}
	}
	return dst
}

// AppendLimit appends the value of the field RateLimit: the units that are left,
// and the seconds until one more.
func (v *Verdict) AppendLimit(dst []byte) []byte {
	for i := range v.items {
		it := &v.items[i]
		dst = it.appendName(dst, i)
		dst = strconv.AppendInt(append(dst, ";r="...), it.remaining, 10)
		if t := seconds(it.next); t > 0 {
			dst = strconv.AppendInt(append(dst, ";t="...), t, 10)
		}
	}
	return dst
}

// appendName appends the item's name as a string; names need no escapes.
func (it *item) appendName(dst []byte, i int) []byte {
	if i > 0 {
		dst = append(dst, ", "...)
	}
	dst = append(dst, '"')
	dst = append(dst, it.name...)
	return append(dst, '"')
}

// seconds rounds up, so that a client which waits as told is never early.
func seconds(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d-1)/time.Second) + 1
}
