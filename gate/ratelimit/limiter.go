package ratelimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/comporta/comporta"
)

// Config describes a Limiter. The zero value limits nothing.
type Config struct {
	// Rules are all asked; a request passes when no rule that matches it denies.
	Rules []Rule
	// Allow names who is never limited, Deny who is never let in; Allow wins.
	Allow, Deny List
	// Routes are the names of the gate's routes by index, for keys and matches.
	Routes []string
	// Stores are shared stores by the names that rules give them.
	Stores map[string]Store
}

// Limiter asks the rules that match a request, all or nothing. It is compiled
// over a Table, which outlives it, and is immutable; its methods may be called
// from many goroutines.
type Limiter struct {
	rules       []*rule // those of one store side by side, the table's first
	stores      []Store // 0 is the table
	routes      []string
	allow, deny list
}

// New compiles a limiter over the buckets that t holds. Rules whose names t
// knows go on with what their keys have used. The error joins every problem of
// the configuration; t is then unchanged.
func New(now time.Time, c Config, t *Table) (*Limiter, error) {
	if t == nil {
		return nil, errors.New("ratelimit: there is no table: make one with NewTable")
	}
	l := &Limiter{routes: c.Routes, stores: []Store{t}}
	indices := map[string]int{"": 0}
	for _, name := range slices.Sorted(maps.Keys(c.Stores)) {
		indices[name] = len(l.stores)
		l.stores = append(l.stores, c.Stores[name])
	}
	var problems []error
	var err error
	if l.allow, err = c.Allow.compile(); err != nil {
		problems = append(problems, fmt.Errorf("ratelimit: Allow: %w", err))
	}
	if l.deny, err = c.Deny.compile(); err != nil {
		problems = append(problems, fmt.Errorf("ratelimit: Deny: %w", err))
	}
	names := map[string]bool{}
	for i := range c.Rules {
		r, err := c.Rules[i].compile(c.Routes)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		var known bool
		if r.store, known = indices[r.Store]; !known || l.stores[r.store] == nil {
			problems = append(problems, fmt.Errorf("ratelimit: rule %q: store %q is unknown: leave it out to count in this process",
				r.Name, r.Store))
		}
		if names[r.Name] {
			problems = append(problems, fmt.Errorf("ratelimit: rule %q is there twice: give it another name", r.Name))
		}
		names[r.Name] = true
		l.rules = append(l.rules, r)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	slices.SortStableFunc(l.rules, func(a, b *rule) int { return cmp.Compare(a.store, b.store) })
	if err := l.prepare(now); err != nil {
		return nil, err
	}
	return l, nil
}

// prepare makes the policies known to their stores.
func (l *Limiter) prepare(now time.Time) error {
	policies := make([][]*Policy, len(l.stores))
	for _, r := range l.rules {
		for _, c := range []*charged{r.byKey, r.quotaByKey, r.byNetwork, r.quotaByNetwork, r.bySubnet} {
			if c == nil {
				continue
			}
			policies[r.store] = append(policies[r.store], c.policy)
			if c.local != nil {
				policies[0] = append(policies[0], c.local)
			}
		}
	}
	for i, s := range l.stores {
		if err := s.Prepare(now, policies[i]...); err != nil {
			return err
		}
	}
	return nil
}

// TakeAt asks every rule that matches r, charges all of them or none, and writes
// v. It reports whether r may pass. What v held before is forgotten.
//
// It reads the head, Client and Route of r. It allocates nothing once v has
// been used for as many rules. ctx bounds calls of shared stores only.
func (l *Limiter) TakeAt(ctx context.Context, now time.Time, r *comporta.Request, v *Verdict) bool {
	return l.ask(ctx, now, r, v, 1)
}

// TakeTimesAt is TakeAt for a request that costs times as much as usual, 1 or
// more. No limit is asked for more than a full bucket: what is dearer for a while
// must not become impossible.
func (l *Limiter) TakeTimesAt(ctx context.Context, now time.Time, times int64, r *comporta.Request, v *Verdict) bool {
	return l.ask(ctx, now, r, v, max(times, 1))
}

// PeekAt is TakeAt for nothing: it says what is left and changes nothing.
func (l *Limiter) PeekAt(ctx context.Context, now time.Time, r *comporta.Request, v *Verdict) bool {
	return l.ask(ctx, now, r, v, 0)
}

// ask charges every rule times its cost; 0 peeks.
func (l *Limiter) ask(ctx context.Context, now time.Time, r *comporta.Request, v *Verdict, times int64) bool {
	v.reset(l)
	switch {
	case l.allow.holds(r):
		v.Listed = true
		return true
	case l.deny.holds(r):
		v.Listed, v.Stop, v.Reason = true, true, comporta.RateLimited
		return false
	}
	for _, rule := range l.rules {
		if rule.match.matches(r) {
			v.add(rule, r, l.routeName(r.Route), times)
		}
	}
	v.bind()
	for from := 0; from < len(v.debits); {
		to := v.endOfStore(from)
		if !l.takeFrom(ctx, now, v, from, to) {
			l.undo(ctx, now, v, 0, from)
			v.refuse(from, to)
			break
		}
		from, v.granted = to, to
	}
	v.report()
	return v.Reason == comporta.ReasonNone
}

func (l *Limiter) routeName(i int) string {
	if i >= 0 && i < len(l.routes) {
		return l.routes[i]
	}
	return "other"
}

// takeFrom asks one store. The table comes first, so that no flood reaches a
// shared store through a rule that this process can judge by itself.
func (l *Limiter) takeFrom(ctx context.Context, now time.Time, v *Verdict, from, to int) bool {
	debits, results := v.debits[from:to], v.results[from:to]
	store := l.stores[v.claims[from].rule.store]
	ok, err := store.Take(ctx, now, debits, results)
	if err == nil {
		return ok
	}
	return l.withoutStore(ctx, now, v, from, to)
}

// withoutStore applies the failure modes of debits whose store said nothing. It
// may have charged them all the same; nothing is given back that may never have
// been taken.
func (l *Limiter) withoutStore(ctx context.Context, now time.Time, v *Verdict, from, to int) bool {
	ok := true
	for i := from; i < to; i++ {
		p := v.debits[i].Policy
		v.results[i] = Result{Allowed: true, Remaining: p.Units()}
		switch p.OnFailure {
		case FailLocal:
			ok = l.takeLocally(ctx, now, v, i) && ok
			continue
		case FailClosed:
			v.results[i].Allowed, v.results[i].Unavailable = false, true
			ok = ok && p.Shadow
		default:
		}
		v.debits[i].Cost = 0
	}
	if !ok {
		l.undo(ctx, now, v, from, to)
	}
	return ok
}

// takeLocally judges one debit by its stand-in in the table.
func (l *Limiter) takeLocally(ctx context.Context, now time.Time, v *Verdict, i int) bool {
	local := v.claims[i].charged.local
	if local == nil { // a store that failed on a debit of our own making
		return true
	}
	v.debits[i].Policy = local
	ok, err := l.stores[0].Take(ctx, now, v.debits[i:i+1], v.results[i:i+1])
	return ok && err == nil
}

// undo gives back what the debits before the one that denied were charged.
func (l *Limiter) undo(ctx context.Context, now time.Time, v *Verdict, from, to int) {
	// A store that fails here keeps some units until they are regained: that
	// errs on the side of the limit.
	_ = l.each(v, from, to, func(s Store, debits []Debit) error { return s.Refund(ctx, now, "", debits) })
}

// each calls f with every debit that was charged, and the store that did it.
func (l *Limiter) each(v *Verdict, from, to int, f func(Store, []Debit) error) error {
	var problems []error
	for i := from; i < to; i++ {
		d, c := &v.debits[i], &v.claims[i]
		if !v.results[i].Allowed || d.Cost == 0 {
			continue
		}
		s := l.stores[c.rule.store]
		if d.Policy == c.charged.local {
			s = l.stores[0]
		}
		problems = append(problems, f(s, v.debits[i:i+1]))
	}
	return errors.Join(problems...)
}

// RefundAt gives back what the request of v was charged: it did not do what the
// rules limit. It counts once a verdict, and once an id within RefundMemory.
func (l *Limiter) RefundAt(ctx context.Context, now time.Time, id string, v *Verdict) error {
	if v.granted == 0 || v.limiter != l {
		return nil
	}
	end := v.granted
	v.granted = 0
	return l.each(v, 0, end, func(s Store, debits []Debit) error { return s.Refund(ctx, now, id, debits) })
}

// ChargeAt takes n more units for the request of v, whether its keys have them or
// not: a cost that is known only after the answer.
func (l *Limiter) ChargeAt(ctx context.Context, now time.Time, v *Verdict, n int64) error {
	if n < 0 {
		return ErrNegativeCost
	}
	if v.granted == 0 || v.limiter != l {
		return nil
	}
	return l.each(v, 0, v.granted, func(s Store, debits []Debit) error {
		more := [1]Debit{debits[0]}
		more[0].Cost = n
		return s.Charge(ctx, now, more[:])
	})
}

// Policies yields every policy with what it did, for metrics: a bounded number,
// whatever keys exist. What a rule's stand-in denied while its store was away is
// counted as the rule's.
func (l *Limiter) Policies(yield func(*Policy, Counts) bool) {
	for _, r := range l.rules {
		for _, c := range []*charged{r.byKey, r.quotaByKey, r.byNetwork, r.quotaByNetwork, r.bySubnet} {
			if c != nil && !yield(c.policy, l.countsOf(r, c)) {
				return
			}
		}
	}
}
