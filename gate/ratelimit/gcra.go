package ratelimit

import "time"

// plan is a Limit made ready for the generic cell rate algorithm (ATM Forum,
// Traffic Management Specification 4.1, 4.4.2: the virtual scheduling form).
//
// All that a key needs to be remembered by is its theoretical arrival time: the
// instant at which its bucket is full again. A request of cost n moves it by n
// intervals, and is admitted when it then lies at most a window ahead.
type plan struct {
	radix
	interval uint64 // ticks between two units; 0: nothing is ever admitted
	burst    int64
	one      stamp // one interval
	window   stamp // burst intervals: the time to fill
	ceiling  stamp // maxDebt bursts: as far ahead as charges may push an arrival time
	horizon  stamp // an arrival time further ahead than this was written under another clock
}

// slack is how far a clock may step back, or a caller's idea of now lag behind
// that of others, before an arrival time is held to be wrong.
const slack = stamp(10_000_000) << fracBits

// maxDebt is how many bursts a key may owe in all: one that it may spend, and
// one more that penalties and costs known afterwards may add.
const maxDebt = 2

func newPlan(l Limit) plan {
	if l.Rate.Count <= 0 {
		return plan{radix: 1}
	}
	p := plan{burst: l.size()}
	interval, scale := l.Rate.interval()
	p.interval, p.radix = interval, radix(scale)
	p.one = p.pack(interval)
	p.window = p.pack(uint64(p.burst) * interval)
	p.ceiling = p.pack(maxDebt * uint64(p.burst) * interval)
	p.horizon = p.ceiling
	return p
}

// cost is the span of n units, of which there are at most maxDebt bursts.
func (p *plan) cost(n int64) stamp {
	if n == 1 {
		return p.one
	}
	return p.pack(uint64(n) * p.interval)
}

// debt is the arrival time at which a key starts. An arrival time beyond
// the horizon comes from a clock that stepped back since. The debt is cut to an empty
// bucket: the key waits no longer than anybody who spent all, and gains nothing.
func (p *plan) debt(now stamp, was uint64) stamp {
	tat := max(stamp(was), now)
	if tat > now+p.horizon+slack {
		return now + p.window
	}
	return tat
}

// judge reads what a request of cost n, at most the burst, does to a key.
func (p *plan) judge(now stamp, was uint64, n int64) judgement {
	tat := p.debt(now, was)
	after := p.add(tat, p.cost(n))
	j := judgement{after: uint64(after), kept: was}
	if tat < stamp(was) {
		j.kept = uint64(tat)
	}
	if edge := now + p.window; after > edge && n > 0 {
		j.wait = p.span(p.ticks(after) - p.ticks(edge))
	}
	return j
}

// charge adds n units to what a key owes, whether it can pay or not, up to
// maxDebt bursts. It never lowers a debt.
func (p *plan) charge(now stamp, was uint64, n int64) uint64 {
	tat := p.debt(now, was)
	after := p.add(tat, p.cost(min(n, maxDebt*p.burst)))
	return uint64(max(tat, min(after, now+p.ceiling)))
}

// refund takes n units off what a key owes; a bucket never holds more than its burst.
func (p *plan) refund(now stamp, was uint64, n int64) uint64 {
	tat := p.debt(now, was)
	owed, back := p.ticks(tat)-p.ticks(now), uint64(min(n, maxDebt*p.burst))*p.interval
	if back >= owed {
		return 0
	}
	return uint64(p.pack(p.ticks(tat) - back))
}

// report says how many units a key has left, and how long until one more; 0
// when its bucket is full.
func (p *plan) report(now stamp, was uint64) (remaining int64, next time.Duration) {
	if p.interval == 0 {
		return 0, 0
	}
	tat, edge := p.debt(now, was), now+p.window
	if tat <= now {
		return p.burst, 0
	}
	if tat > edge {
		return 0, p.span(p.ticks(tat) - p.ticks(edge) + p.interval)
	}
	left := p.ticks(edge) - p.ticks(tat)
	n := left / p.interval
	return int64(n), p.span(p.interval - (left - n*p.interval))
}

// convert carries what a key owes under an older plan over to this one: the
// units stay, the time that they take changes.
func (p *plan) convert(old *plan, now stamp, was uint64) uint64 {
	tat := old.debt(now, was)
	if tat <= now || old.interval == 0 || p.interval == 0 {
		return 0
	}
	owed := mulDivCeil(old.ticks(tat)-old.ticks(now), p.interval, old.interval)
	return uint64(p.add(now, p.pack(min(owed, p.ticks(maxHorizon)))))
}

// inherit widens the horizon so that debts from before a limit was lowered are
// not mistaken for a clock's fault.
func (p *plan) inherit(old *plan) {
	if old.interval == 0 || p.interval == 0 {
		return
	}
	ticks := mulDivCeil(old.ticks(old.horizon), p.interval, old.interval)
	p.horizon = max(p.horizon, p.pack(min(ticks, p.ticks(maxHorizon))))
}
