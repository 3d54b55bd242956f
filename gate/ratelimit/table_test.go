package ratelimit

import (
	"context"
	"encoding/binary"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"
)

// prepared is a policy known to the table.
func prepared(t testing.TB, table *Table, p Policy) *Policy {
	t.Helper()
	made, err := NewPolicy(p)
	if err == nil {
		err = table.Prepare(t0, made)
	}
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestSizes(t *testing.T) {
	if n := unsafe.Sizeof(line{}); n != 64 {
		t.Errorf("a line has %d bytes, want one cache line", n)
	}
	if n := unsafe.Sizeof(shard{}); n != 64 {
		t.Errorf("a shard has %d bytes, want one cache line", n)
	}
	for _, keys := range []int{MinKeys, DefaultKeys, 1 << 20} {
		table, err := NewTable(keys)
		if err != nil {
			t.Fatal(err)
		}
		if per := float64(table.Bytes()) / float64(keys); per > 48 {
			t.Errorf("%d keys: %.1f bytes a key, want at most 48", keys, per)
		}
	}
	for _, keys := range []int{-1, 1, MinKeys - 1, MaxKeys + 1} {
		if _, err := NewTable(keys); err == nil {
			t.Errorf("%d keys: accepted", keys)
		}
	}
}

// key is the i-th of many keys.
func key(i uint64) []byte { return binary.BigEndian.AppendUint64(nil, i) }

// try asks a policy about one key.
func try(t testing.TB, table *Table, now time.Time, p *Policy, k []byte, believed bool) (bool, Result) {
	debits, results := [1]Debit{{Policy: p, Key: k, Cost: 1, Believed: believed}}, [1]Result{}
	ok, err := table.Take(context.Background(), now, debits[:], results[:])
	if err != nil {
		t.Fatal(err)
	}
	return ok, results[0]
}

func TestATableHoldsItsKeys(t *testing.T) {
	for _, believed := range []bool{true, false} {
		table, err := NewTable(1 << 16)
		if err != nil {
			t.Fatal(err)
		}
		p := prepared(t, table, Policy{Name: "p", Limit: Limit{Rate: Rate{2, time.Hour}}})
		for i := range uint64(1 << 16) {
			try(t, table, t0, p, key(i), believed)
		}
		// Strangers fill half of the table by then, and a few in a million find no room.
		most := 0
		if !believed {
			most = 4
		}
		if n := table.Crowded(); n > uint64(most) {
			t.Errorf("believed %v: %d of 65536 keys found no room, want at most %d", believed, n, most)
		}
		wrong := 0
		for i := range uint64(1 << 16) {
			if _, r := try(t, table, t0, p, key(i), believed); !r.Allowed || r.Remaining != 0 {
				wrong++
			}
		}
		if wrong > most {
			t.Errorf("believed %v: %d keys did not have the last of their two", believed, wrong)
		}
	}
}

// cases/ratelimit.md 30
func TestCase_RateLimit_30_AFloodOfInventedKeys(t *testing.T) {
	distinct := uint64(10_000_000)
	if raceEnabled {
		distinct = 1_000_000
	}
	table, err := NewTable(1 << 17)
	if err != nil {
		t.Fatal(err)
	}
	p := prepared(t, table, Policy{Name: "p", Limit: Limit{Rate: Rate{10, time.Hour}}})
	genuine := func(i uint64) []byte { return append(key(i), "real"...) }
	const clients = 1000
	for i := range uint64(clients) { // the even ones have spent all, the odd ones half
		for range 5 + 5*(1-i%2) {
			try(t, table, t0, p, genuine(i), false)
		}
	}
	before := heap()
	invented := 0
	k := key(0)
	for i := range distinct {
		binary.BigEndian.PutUint64(k, i)
		if ok, _ := try(t, table, t0.Add(time.Duration(i)*6*time.Microsecond), p, k, false); ok {
			invented++
		}
	}
	if after := heap(); after > before+1<<20 {
		t.Errorf("the heap grew from %d to %d bytes", before, after)
	}
	// What fits the table has its own first unit; the rest shares one bucket.
	minute := t0.Add(time.Duration(distinct) * 6 * time.Microsecond)
	most := len(table.shards)*len(table.shards[0].lines[rates])*(lineCells-1) + 10 + 10
	if invented > most || invented < 1<<17 {
		t.Errorf("%d invented keys passed, want between what fits and %d", invented, most)
	}
	if table.Crowded() < distinct-uint64(most) {
		t.Errorf("%d keys are counted as without room, want at least %d", table.Crowded(), distinct-uint64(most))
	}
	for i := range uint64(clients) {
		ok, r := try(t, table, minute, p, genuine(i), false)
		if want := i%2 == 1; ok != want || want && r.Remaining != 4 {
			t.Fatalf("client %d after the flood: %v, %+v", i, ok, r)
		}
	}
	// Who is believed still finds room: a quarter of the table is theirs. Both of a
	// newcomer's last cells are taken, and both of their holders' other ones, once in
	// some hundred thousand runs.
	for i := range uint64(clients) {
		if ok, r := try(t, table, minute, p, key(i+1<<40), true); !ok || r.Remaining != 9 {
			t.Fatalf("a new believed client %d: %v, %+v", i, ok, r)
		}
	}
	// An hour later nothing is left of it.
	if ok, r := try(t, table, minute.Add(time.Hour), p, key(1<<50), false); !ok || r.Remaining != 9 {
		t.Errorf("after the flood: %v, %+v", ok, r)
	}
}

func heap() uint64 {
	runtime.GC() //nolint:revive // what is left is what is held
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A quota whose keys find no room is one quota for all of them.
func TestCrowdedQuotasShareOne(t *testing.T) {
	table := newTable(t)
	p := prepared(t, table, Policy{Name: "q", Quota: Quota{Units: 2, Period: Day}})
	passed := 0
	for i := range uint64(20_000) {
		ok, r := try(t, table, t0, p, key(i), false)
		if ok {
			passed++
		} else if r.Never || r.Wait <= 0 || r.Remaining != 0 {
			t.Fatalf("key %d: %+v, want a denial that ends", i, r)
		}
	}
	if most := table.Bytes() / 2 / 16; passed > most || table.Crowded() == 0 {
		t.Errorf("%d passed and %d found no room, want at most %d", passed, table.Crowded(), most)
	}
}

// A denied key stays denied while others come and go around it.
func TestLiveKeysAreNeverEvicted(t *testing.T) {
	table := newTable(t)
	p := prepared(t, table, Policy{Name: "p", Limit: Limit{Rate: Rate{1, time.Hour}}})
	quick := prepared(t, table, Policy{Name: "quick", Limit: perSecond(1000, 1000)})
	for i := range uint64(500) {
		if ok, _ := try(t, table, t0, p, key(i), true); !ok {
			t.Fatalf("key %d: denied", i)
		}
	}
	for i := range uint64(100_000) {
		try(t, table, t0.Add(time.Duration(i)*time.Millisecond/100), quick, key(i), true)
	}
	for i := range uint64(500) {
		if ok, _ := try(t, table, t0.Add(time.Minute), p, key(i), true); ok {
			t.Fatalf("key %d was forgotten", i)
		}
	}
}

func TestTheTableJudgesItsCallers(t *testing.T) {
	table := newTable(t)
	p, err := NewPolicy(Policy{Name: "p", Limit: perSecond(1, 1)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, one := context.Background(), []Debit{{Policy: p, Cost: 1}}
	if _, err := table.Take(ctx, t0, one, make([]Result, 1)); err == nil {
		t.Error("an unprepared policy is accepted")
	}
	if err := table.Prepare(t0, p, nil, &Policy{}); err == nil {
		t.Error("policies that were not made are accepted")
	}
	if err := table.Prepare(t0, p); err != nil {
		t.Fatal(err)
	}
	if _, err := table.Take(ctx, t0, one, nil); err == nil {
		t.Error("no room for results: accepted")
	}
	if err := newTable(t).Prepare(t0, p); err == nil {
		t.Error("a policy of another table is accepted")
	}
	if ok, err := table.Take(ctx, t0, nil, nil); !ok || err != nil {
		t.Errorf("no debits: %v, %v", ok, err)
	}
}

// Names that come and go with reloads do not use up the numbers of policies.
func TestManyReloads(t *testing.T) {
	table := newTable(t)
	keep := Policy{Name: "keep", Limit: Limit{Rate: Rate{5, time.Hour}}}
	try(t, table, t0, prepared(t, table, keep), key(1), true)
	for i := range 3 * MaxPolicies {
		passing, err := NewPolicy(Policy{Name: "rule-" + itoa(i), Limit: perSecond(1, 1)})
		if err != nil {
			t.Fatal(err)
		}
		kept, err := NewPolicy(keep)
		if err != nil {
			t.Fatal(err)
		}
		if err := table.Prepare(t0, kept, passing); err != nil {
			t.Fatal(err)
		}
		try(t, table, t0, passing, key(1), true)
	}
	if _, r := try(t, table, t0, prepared(t, table, keep), key(1), true); r.Remaining != 3 {
		t.Errorf("%d left, want 3: two were taken", r.Remaining)
	}
	if len(table.slots) > MaxPolicies {
		t.Errorf("%d names are remembered", len(table.slots))
	}
}

// Requests that hold several shards, in every order, while limits change.
func TestConcurrentRequestsOfManyKeys(t *testing.T) {
	table := newTable(t)
	hourly := Limit{Rate: Rate{100, 24 * time.Hour}}
	a, b := prepared(t, table, Policy{Name: "a", Limit: hourly}), prepared(t, table, Policy{Name: "b", Limit: hourly, Unseen: perSecond(1, 1_000_000)})
	q := prepared(t, table, Policy{Name: "q", Quota: Quota{Units: 1_000_000, Period: Day}})
	var granted [8]atomic.Int64
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			results := make([]Result, 10)
			for i := range 2000 {
				n := uint64(g+i) % 8
				debits := []Debit{
					{Policy: a, Key: key(n), Cost: 1}, {Policy: b, Key: key(n), Cost: 1}, {Policy: q, Key: key(uint64(i) % 3), Cost: 1},
				}
				for j := range uint64(6) { // above eight debits the stack no longer has room
					debits = append(debits, Debit{Policy: q, Key: key(100 + j), Cost: 0})
				}
				if g%2 == 1 {
					debits[0], debits[2] = debits[2], debits[0]
				}
				if ok, err := table.Take(context.Background(), t0, debits, results); err != nil {
					t.Error(err)
				} else if ok {
					granted[n].Add(1)
				}
			}
		})
	}
	wg.Go(func() {
		for i := range 50 {
			if _, err := New(t0, Config{Rules: []Rule{{Name: "r", Limit: perSecond(int64(i+1), 10)}}}, table); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	for n := range granted {
		if got := granted[n].Load(); got != 100 {
			t.Errorf("key %d: %d granted, want 100", n, got)
		}
	}
}
