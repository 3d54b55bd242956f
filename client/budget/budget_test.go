package budget

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

func make1(t testing.TB, c Config) *Budgets {
	t.Helper()
	b, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// cases/client.md D1: what 400 failing calls may add is the burst.
func TestCase_Client_D1_OutageCostsTheBurst(t *testing.T) {
	bucket := make1(t, Config{}).Of("api")
	repeats := 0
	for range 400 {
		if bucket.Withdraw() {
			repeats++
		}
	}
	if repeats != DefaultBurst {
		t.Errorf("%d repeats in an outage, want %d", repeats, DefaultBurst)
	}
}

// cases/client.md D4: k successes at the first try earn k/10 repeats, and a
// repeat that succeeds costs nothing.
func TestCase_Client_D4_SuccessEarns(t *testing.T) {
	bucket := make1(t, Config{}).Of("api")
	for bucket.Withdraw() {
	}
	for range 50 {
		bucket.Deposit()
	}
	repeats := 0
	for bucket.Withdraw() {
		repeats++
	}
	if repeats != 5 {
		t.Errorf("50 successes earned %d repeats, want 5", repeats)
	}
	for range 9 {
		bucket.Deposit()
	}
	if bucket.Withdraw() {
		t.Error("nine tenths of a token were enough")
	}
	bucket.Deposit()
	for range 1000 { // each gives its token back
		if !bucket.Withdraw() {
			t.Fatal("a refunded token was not there")
		}
		bucket.Refund()
	}
}

func TestBurstBounds(t *testing.T) {
	bucket := make1(t, Config{Burst: 3, PerSuccess: 0.3}).Of("api")
	bucket.Withdraw()
	for range 100 { // 2.3, 2.6, 2.9, and then the rim
		bucket.Deposit()
		if l := bucket.Level(); l > 3 || bucket.level.Load() > 3*token {
			t.Fatalf("level %v is above the burst of 3", l)
		}
	}
	bucket.Refund()
	if bucket.level.Load() != 3*token {
		t.Errorf("level %v, want the burst of 3", bucket.Level())
	}
}

func TestTighten(t *testing.T) {
	b := make1(t, Config{})
	bucket := b.Of("api")
	b.Tighten(2, 0)
	if bucket.Level() != 2 || !bucket.Withdraw() || !bucket.Withdraw() || bucket.Withdraw() {
		t.Error("a tightened burst is not the most that can be taken")
	}
	bucket.Deposit()
	if bucket.Level() != 0 {
		t.Error("a success earned although nothing may be earned")
	}
	b.Tighten(0, 0.1)
	bucket.Refund()
	if bucket.Withdraw() {
		t.Error("a burst of 0 allowed a repeat")
	}
	for _, loose := range []float64{math.NaN(), 2, -1} {
		b.Tighten(99, loose)
		if got := *b.terms.Load(); got != (terms{DefaultBurst * token, token / 10}) {
			t.Errorf("a document loosened to %+v", got)
		}
	}
}

func TestDestinations(t *testing.T) {
	b := make1(t, Config{Destinations: 4})
	first := b.Of("0")
	if first != b.Of("0") {
		t.Fatal("one destination has two buckets")
	}
	for i := range 4 {
		b.Of(fmt.Sprint(i)).Withdraw()
	}
	if b.Of("x") != b.Of("y") {
		t.Error("destinations without room do not share")
	}
	if b.Of("0") != first {
		t.Error("a bucket in use was dropped")
	}
	first.Refund() // full: equal to absence
	found := false
	for i := range 2 * sweepEvery {
		found = found || b.Of(fmt.Sprint("new", i)) != b.shared
	}
	if !found || b.Len() != 4 {
		t.Errorf("room found: %t, %d buckets, want one full bucket replaced", found, b.Len())
	}
}

func TestNewNamesEveryProblem(t *testing.T) {
	_, err := New(Config{Burst: -1, PerSuccess: math.NaN(), Destinations: -1})
	if err == nil {
		t.Fatal("no error")
	}
	for _, field := range []string{"Burst", "PerSuccess", "Destinations"} {
		if !strings.Contains(err.Error(), field+":") {
			t.Errorf("%v does not name %s", err, field)
		}
	}
}

// Whatever happens in whatever order: the level stays within its bounds, and
// what was taken never exceeds the burst and what was put back.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		burst := rapid.IntRange(1, 20).Draw(t, "burst")
		b, err := New(Config{Burst: burst})
		if err != nil {
			t.Fatal(err)
		}
		bucket := b.Of("api")
		put := float64(burst)
		t.Repeat(map[string]func(*rapid.T){
			"withdraw": func(t *rapid.T) {
				had := bucket.Level()
				if took := bucket.Withdraw(); took != (had >= 1) {
					t.Fatalf("withdraw %t from %v", took, had)
				} else if took {
					put--
				}
			},
			"deposit": func(*rapid.T) { bucket.Deposit(); put += 0.1 },
			"refund":  func(*rapid.T) { bucket.Refund(); put++ },
			"": func(t *rapid.T) {
				if l := bucket.Level(); l < 0 || l > float64(burst) || l > put+1e-6 {
					t.Fatalf("level %v, burst %d, put %v", l, burst, put)
				}
			},
		})
	})
}

func TestConcurrentWithdraw(t *testing.T) {
	b := make1(t, Config{Burst: 100})
	var taken atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if b.Of("api").Withdraw() {
					taken.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if taken.Load() != 100 {
		t.Errorf("%d tokens taken of 100", taken.Load())
	}
}

func TestAllocations(t *testing.T) {
	b := make1(t, Config{})
	b.Of("api")
	n := testing.AllocsPerRun(100, func() {
		bucket := b.Of("api")
		bucket.Withdraw()
		bucket.Deposit()
		bucket.Refund()
	})
	if n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkSuccess(b *testing.B) {
	budgets := make1(b, Config{})
	b.ReportAllocs()
	for b.Loop() {
		budgets.Of("api.example.com").Deposit()
	}
}
