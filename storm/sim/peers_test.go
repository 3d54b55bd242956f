package sim

import (
	"math"
	"testing"
	"time"
)

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9 {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// max(0, (requests - K accepts) / (requests + 1)), K = 2.
func TestGoogleClosedForm(t *testing.T) {
	near(t, "all accepted", googleReject(100, 100), 0)
	near(t, "half accepted: just not yet", googleReject(100, 50), 0)
	near(t, "none accepted", googleReject(99, 0), 0.99)
	near(t, "a tenth accepted", googleReject(99, 10), 0.79)
}

// 500 tokens, 14 a repeat: 35 repeats in a row, whatever fails. A repeat that
// succeeds gives its cost back, a first success one token; never above 500.
func TestAWSClosedForm(t *testing.T) {
	left, n := float64(awsTokens), 0
	for {
		after, ok := awsTake(left)
		if !ok {
			break
		}
		left = after
		n++
	}
	if n != 35 || left != 500-35*14 {
		t.Errorf("%d repeats leave %v", n, left)
	}
	near(t, "a first success", awsGive(left, false), left+1)
	near(t, "a repeat's success", awsGive(left, true), left+14)
	near(t, "full", awsGive(awsTokens, true), awsTokens)
}

// Case P3 (cases/storm.md): once the bucket is empty, and p of all calls fail, a
// first success pays for a fourteenth of a repeat: the amplification is at most
// 1 + (1-p)/14 · …, and exactly 1 when everything fails.
func TestCase_Storm_P3_EmptyBucketAmplifiesNothing(t *testing.T) {
	for _, p := range []float64{0.5, 0.9, 1} {
		left, d := 0.0, dice{1}
		const calls = 100_000
		attempts := 0
		for i := range uint64(calls) {
			attempts++
			fails := d.of(askDefence, i, 0) < p
			for n := 1; fails && n < 4; n++ {
				var ok bool
				if left, ok = awsTake(left); !ok {
					break
				}
				attempts++
				if fails = d.of(askDefence, i, n) < p; !fails {
					left = awsGive(left, true)
				}
			}
			if !fails {
				left = awsGive(left, false)
			}
		}
		// A repeat costs 14 net only if it fails too; what succeeds is refunded.
		most := 1 + (1-p)*(1/(awsCost*p)+0.1)/max(p, 0.05)*1.2
		if got := float64(attempts) / calls; got > most || p == 1 && got != 1 {
			t.Errorf("p = %v: %v attempts a call, at most %v", p, got, most)
		}
	}
}

// (n - s/threshold)/(n + 1), threshold 0.95, at most 0.8.
func TestEnvoyClosedForm(t *testing.T) {
	near(t, "all succeed", envoyReject(1000, 1000), 0)
	near(t, "95 % succeed", envoyReject(1000, 950), 0)
	near(t, "none succeed", envoyReject(1000, 0), 0.8)
	near(t, "half succeed", envoyReject(999, 475), (999-500.0)/1000)
}

func TestGradientClosedForm(t *testing.T) {
	near(t, "no queue: grows by 4, smoothed by 0.2", nextGradient(100, 1, 1), 100*0.8+104*0.2)
	near(t, "within the tolerance of 1.5", nextGradient(100, 1, 1.5), 100*0.8+104*0.2)
	near(t, "twice as slow", nextGradient(100, 1, 2), 100*0.8+79*0.2)
	near(t, "at most halved", nextGradient(100, 1, 100), 100*0.8+54*0.2)
	near(t, "never below 20", nextGradient(20, 1, 100), 20)
}

func TestVegasClosedForm(t *testing.T) {
	near(t, "no queue: beta", nextVegas(100, 1, 1, false), 112)
	near(t, "queue of 3, below alpha", nextVegas(100, 1, 1/0.97, false), 102)
	near(t, "queue of 10, between", nextVegas(100, 1, 1/0.905, false), 100)
	near(t, "queue of 50", nextVegas(100, 1, 2, false), 98)
	near(t, "a drop", nextVegas(100, 1, 1, true), 98)
}

func TestAIMDClosedForm(t *testing.T) {
	near(t, "half full", nextAIMD(100, 50, false), 101)
	near(t, "less", nextAIMD(100, 49, false), 100)
	near(t, "dropped", nextAIMD(100, 100, true), 90)
	near(t, "at least 20", nextAIMD(21, 21, true), 20)
}

func TestCoDelClosedForm(t *testing.T) {
	if got := codelTimeout(codelInterval); got != codelInterval {
		t.Errorf("a queue that was empty 100 ms ago: %v", time.Duration(got))
	}
	if got := codelTimeout(codelInterval + 1); got != codelTarget {
		t.Errorf("a standing queue: %v", time.Duration(got))
	}
}

// The level falls until the histogram of what was offered reaches 95 % of what was
// admitted, and rises to 101 %.
func TestDAGORClosedForm(t *testing.T) {
	var even [dagorLevels]int
	for i := range even {
		even[i] = 10
	}
	if got := dagorLevel(128, &even, 1280, true); got != 121 { // 5 % of 1280 are 64: 7 levels of 10
		t.Errorf("overloaded: level %d", got)
	}
	if got := dagorLevel(64, &even, 640, false); got != 65 { // 1 % of 640 are 6.4: one level
		t.Errorf("relieved: level %d", got)
	}
	if got := dagorLevel(128, &even, 1280, false); got != 128 {
		t.Errorf("all open: level %d", got)
	}
	if got := dagorLevel(0, &[dagorLevels]int{}, 0, false); got != 1 {
		t.Errorf("nobody admitted: level %d", got)
	}
}

func TestWAFClosedForm(t *testing.T) {
	if wafBlocks(100) || !wafBlocks(101) {
		t.Error("the rule is above 100 a minute")
	}
}

// 10 s and one of 50 seconds, the same for a client every time.
func TestHashedWait(t *testing.T) {
	s := Incident()
	none, _ := DefenceByName("none")
	e, err := newEngine(&s, &none, 1)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[time.Duration]bool{}
	for user := range uint32(2000) {
		o := operation{user: user, attempts: 1}
		wait := hashWait(e, &o)
		o.attempts, o.name = 9, 9
		if wait < 10*time.Second || wait > 59*time.Second || wait != hashWait(e, &o) {
			t.Fatalf("client %d waits %v, then %v", user, wait, hashWait(e, &o))
		}
		seen[wait] = true
	}
	if len(seen) != 50 {
		t.Errorf("%d different waits, want 50", len(seen))
	}
	for attempts, want := range map[uint16]time.Duration{1: time.Second, 2: 2 * time.Second, 7: 64 * time.Second, 60: 64 * time.Second} {
		if got := doublingWait(e, &operation{attempts: attempts}); got != want {
			t.Errorf("attempt %d: %v, want %v", attempts, got, want)
		}
	}
}

func TestTensForget(t *testing.T) {
	n := newTens(10 * time.Second)
	for i := range 30 {
		n.add(instant(i)*instant(time.Second), 0)
	}
	if a, _ := n.sums(29 * instant(time.Second)); a != 10 {
		t.Errorf("%v in the last ten seconds", a)
	}
	if a, _ := n.sums(500 * instant(time.Second)); a != 0 {
		t.Errorf("%v long after", a)
	}
}
