package store_test

import (
	"testing"
	"time"

	"github.com/comporta/comporta/store"
)

func TestNames(t *testing.T) {
	n := store.Name{0: 0xab, 31: 1}
	if got, err := store.ParseName(n.String()); err != nil || got != n {
		t.Errorf("%v, %v", got, err)
	}
	for _, s := range []string{"", "ab", n.String()[1:], "g" + n.String()[1:], n.String() + "00"} {
		if _, err := store.ParseName(s); err == nil {
			t.Errorf("%q is taken for a name", s)
		}
	}
}

func TestStates(t *testing.T) {
	for s := store.Running; s <= store.Finished; s++ {
		if got, ok := store.ParseState(s.String()); !ok || got != s {
			t.Errorf("%v: %v, %v", s, got, ok)
		}
	}
	if _, ok := store.ParseState("unknown"); ok {
		t.Error("a state that is none is taken")
	}
}

// That a step of the wall clock changes nothing is tested where it would, in
// sqlitestore; here, that a reading without the monotonic clock still counts.
func TestCase_Events_B22_InstantsAreMeasuredFromTheOpening(t *testing.T) {
	start := time.Now()
	s := store.SteadyFrom(start)
	for _, d := range []time.Duration{0, time.Second, -time.Hour, 24 * time.Hour} {
		if got := s.At(start.Add(d)); !got.Equal(start.Round(0).Add(d)) {
			t.Errorf("%v later: %v", d, got.Sub(start))
		}
		if got := (store.Steady{}).At(start.Add(d)); !got.Equal(start.Round(0).Add(d)) {
			t.Errorf("zero value, %v later: %v", d, got.Sub(start))
		}
	}
}

func TestFencesAreNew(t *testing.T) {
	seen := map[int64]bool{}
	for range 1000 {
		f := store.NewFence()
		if f <= 0 || seen[f] {
			t.Fatalf("fence %d", f)
		}
		seen[f] = true
	}
}
