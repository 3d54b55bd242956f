package ratelimit

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func newQuota(t testing.TB, q Quota) *quotaPlan {
	t.Helper()
	p, err := NewPolicy(Policy{Name: "q", Quota: q})
	if err != nil {
		t.Fatal(err)
	}
	return p.quota
}

// spend takes n units, or says how long to wait.
func (q *quotaPlan) spend(now time.Time, was *uint64, n int64) time.Duration {
	j := q.judge(stampOf(now), *was, n)
	if *was = j.kept; j.wait == 0 {
		*was = j.after
	}
	return j.wait
}

func TestQuotaSlidesFromDayToDay(t *testing.T) {
	q := newQuota(t, Quota{Units: 100, Period: Day})
	var was uint64
	evening := time.Date(2026, 3, 1, 23, 0, 0, 0, time.UTC)
	if wait := q.spend(evening, &was, 100); wait != 0 {
		t.Fatalf("a fresh key waits %v", wait)
	}
	if wait := q.spend(evening, &was, 1); wait <= time.Hour || wait > 2*time.Hour {
		t.Errorf("the next unit in %v, want a little after midnight", wait)
	}
	// At 06:00 a quarter of yesterday has slid out.
	morning := evening.Add(7 * time.Hour)
	if left, _ := q.report(stampOf(morning), was); left != 25 {
		t.Errorf("at 06:00: %d left, want 25", left)
	}
	if wait := q.spend(morning, &was, 25); wait != 0 {
		t.Errorf("at 06:00 25 units wait %v", wait)
	}
	if wait := q.spend(morning, &was, 1); wait == 0 || q.spend(morning.Add(wait-time.Microsecond), &was, 1) == 0 {
		t.Errorf("wait %v, and it is not exact", wait)
	} else if again := q.spend(morning.Add(wait), &was, 1); again != 0 {
		t.Errorf("who waits %v as told is told %v more", wait, again)
	}
	if left, next := q.report(stampOf(evening.Add(72*time.Hour)), was); left != 100 || next != 0 {
		t.Errorf("three days later: %d left, next in %v", left, next)
	}
}

func TestFixedQuotaComesBackAtMidnightOfItsZone(t *testing.T) {
	saoPaulo := time.FixedZone("BRT", -3*3600)
	q := newQuota(t, Quota{Units: 10, Period: Day, Location: saoPaulo, Fixed: true})
	var was uint64
	at := time.Date(2026, 3, 1, 22, 30, 0, 0, saoPaulo)
	q.spend(at, &was, 10)
	if wait := q.spend(at, &was, 10); wait != 90*time.Minute {
		t.Errorf("wait %v, want until midnight in São Paulo: 1h30m", wait)
	}
	if wait := q.spend(at.Add(90*time.Minute), &was, 10); wait != 0 {
		t.Errorf("at midnight: wait %v", wait)
	}
}

func TestQuotaWindows(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip("this machine has no time zones")
	}
	kathmandu := time.FixedZone("NPT", 5*3600+45*60)
	at := func(s string, l *time.Location) time.Time {
		v, err := time.ParseInLocation("2006-01-02 15:04", s, l)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, tc := range []struct {
		period     Period
		zone       *time.Location
		now        string
		start, end string
	}{
		{Hour, time.UTC, "2026-03-01 12:34", "2026-03-01 12:00", "2026-03-01 13:00"},
		{Hour, kathmandu, "2026-03-01 12:34", "2026-03-01 12:00", "2026-03-01 13:00"},
		{Day, berlin, "2026-03-29 12:00", "2026-03-29 00:00", "2026-03-30 00:00"}, // 23 hours
		{Week, time.UTC, "2026-03-01 12:00", "2026-02-23 00:00", "2026-03-02 00:00"},
		{Week, time.UTC, "2026-03-02 00:00", "2026-03-02 00:00", "2026-03-09 00:00"},
		{Month, berlin, "2026-12-31 23:59", "2026-12-01 00:00", "2027-01-01 00:00"},
	} {
		q := newQuota(t, Quota{Units: 1, Period: tc.period, Location: tc.zone})
		w := q.at(stampOf(at(tc.now, tc.zone)))
		if w.start != sinceEpoch(at(tc.start, tc.zone)) || w.end != sinceEpoch(at(tc.end, tc.zone)) {
			t.Errorf("%v %s: %v to %v, want %s to %s", tc.period, tc.now,
				time.UnixMicro(int64(w.start)+epoch).In(tc.zone), time.UnixMicro(int64(w.end)+epoch).In(tc.zone), tc.start, tc.end)
		}
	}
}

// A clock that steps back gives nothing twice and locks nobody out.
func TestQuotaWhenTheClockStepsBack(t *testing.T) {
	q := newQuota(t, Quota{Units: 10, Period: Day, Fixed: true})
	var was uint64
	q.spend(t0.Add(365*day), &was, 10)
	if wait := q.spend(t0, &was, 1); wait != 12*time.Hour {
		t.Errorf("a year back: wait %v, want until midnight", wait)
	}
	if wait := q.spend(t0.Add(day), &was, 10); wait != 0 {
		t.Errorf("a day later: wait %v", wait)
	}
}

// A cost that takes the last unit of a window fits when the window before weighs
// nothing: that is in the next window, in which this one counts.
func TestQuotaWaitForTheLastUnit(t *testing.T) {
	q := newQuota(t, Quota{Units: 30_000, Period: Day})
	var was uint64
	q.spend(t0, &was, 1)
	q.spend(t0.Add(day), &was, 10_001) // counts as 10,004 from the day after on
	now := t0.Add(day)
	wait := q.judge(stampOf(now), was, 19_999).wait
	if wait <= 12*time.Hour {
		t.Errorf("wait %v ends at midnight, when 10,004 and 19,999 are too many", wait)
	}
	if left := q.judge(stampOf(now.Add(wait)), was, 19_999).wait; left != 0 {
		t.Errorf("after the wait of %v there is another of %v", wait, left)
	}
}

// Whatever is asked, no calendar window gets more than its quota, no instant
// sees more than the sliding sum, and every wait is long enough and not too long.
func TestQuotaInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		units := rapid.OneOf(rapid.Int64Range(1, 20), rapid.Int64Range(30_000, maxQuota)).Draw(t, "units")
		period := rapid.SampledFrom([]Period{Hour, Day, Week, Month}).Draw(t, "period")
		p, err := NewPolicy(Policy{Name: "q", Quota: Quota{Units: units, Period: period, Fixed: rapid.Bool().Draw(t, "fixed")}})
		if err != nil {
			t.Fatal(err)
		}
		q, now, was := p.quota, t0, uint64(0)
		spent := map[uint64]int64{}
		for range rapid.IntRange(1, 40).Draw(t, "calls") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(p.Window())/3).Draw(t, "step"))).Truncate(time.Microsecond)
			n := rapid.Int64Range(1, units).Draw(t, "cost")
			left, _ := q.report(stampOf(now), was)
			j := q.judge(stampOf(now), was, n)
			if (j.wait == 0) != (n <= left) {
				t.Fatalf("%d of %d left, cost %d: wait %v", left, units, n, j.wait)
			}
			if j.wait > 0 {
				if q.judge(stampOf(now.Add(j.wait)), was, n).wait != 0 {
					t.Fatalf("cost %d: after the wait of %v still denied", n, j.wait)
				}
				if q.judge(stampOf(now.Add(j.wait-time.Microsecond)), was, n).wait == 0 {
					t.Fatalf("cost %d: the wait of %v is longer than needed", n, j.wait)
				}
				continue
			}
			was = j.after
			if start := q.at(stampOf(now)).start; spent[start]+n > units {
				t.Fatalf("the window got %d of %d", spent[start]+n, units)
			} else {
				spent[start] += n
			}
		}
	})
}

func TestParsePeriod(t *testing.T) {
	for p := Hour; p < numPeriods; p++ {
		if got, err := ParsePeriod(p.String()); err != nil || got != p {
			t.Errorf("%v: %v, %v", p, got, err)
		}
	}
	for _, bad := range []string{"", "none", "year", "Day"} {
		if _, err := ParsePeriod(bad); err == nil {
			t.Errorf("%q: accepted", bad)
		}
	}
}
