package repeat

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/internal/hash"
)

// A flood of invented requests reaches its own quarter only.
func TestFloodOfUnprovenLeavesTheBelievedAlone(t *testing.T) {
	flood := 10_000_000
	if raceEnabled || testing.Short() {
		flood = 60_000 // still more than twice what the quarter holds
	}
	d := newDetector(t, Config{})
	const known = 5000
	believed := func(i int) *comporta.Request {
		r := get("/orders")
		r.Client.Key = spread(uint64(i))
		return r
	}
	for i := range known {
		run(d, noon, believed(i), 0, answered(500))
	}
	rest := func() (words []uint64) {
		for i := d.table.rest.first; i < d.table.rest.first+d.table.rest.count; i++ {
			for j := range d.table.lines[i] {
				words = append(words, d.table.lines[i][j].Load())
			}
		}
		return words
	}
	was := rest()
	r := get("/orders")
	r.Client.Class = comporta.ClassAnonymous
	for i := range flood {
		r.Client.Key, r.Sighting = spread(uint64(i+known)), comporta.Sighting{}
		d.SeeAt(noon, r, 0, false)
	}
	if d.table.Evictions() == 0 {
		t.Error("the flood fitted into its quarter: the test says nothing")
	}
	if !slices.Equal(was, rest()) {
		t.Error("the flood wrote among the believed")
	}
}

func TestTableStaysWithinItsBytes(t *testing.T) {
	for _, bytes := range []int{MinBytes, MinBytes + 13, 3 << 20, DefaultBytes} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		table, err := NewTable(bytes)
		if err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		if grown := int(after.TotalAlloc - before.TotalAlloc); grown > bytes+1<<14 {
			t.Errorf("%d bytes asked, %d allocated", bytes, grown)
		}
		if table.Bytes() > bytes || table.Bytes() < bytes-lineBytes {
			t.Errorf("%d bytes asked, Bytes() = %d", bytes, table.Bytes())
		}
	}
}

func TestLinesAreCacheLines(t *testing.T) {
	table, err := NewTable(MinBytes)
	if err != nil {
		t.Fatal(err)
	}
	if p := uintptr(unsafe.Pointer(&table.lines[0])); p%lineBytes != 0 || unsafe.Sizeof(table.lines[0]) != 64 {
		t.Errorf("lines of %d bytes begin at %#x", unsafe.Sizeof(table.lines[0]), p)
	}
}

func TestTwoChoicesFillEvenly(t *testing.T) {
	d := newDetector(t, Config{})
	slots := int(d.table.rest.count) * lineSlots
	r := get("/x")
	for i := range slots * 8 / 10 {
		r.Client.Key, r.Sighting = spread(uint64(i)), comporta.Sighting{}
		d.SeeAt(noon, r, 0, false)
	}
	if n := d.table.Evictions(); n > uint64(slots/2000) {
		t.Errorf("%d of %d sightings were lost at 80 %% of the slots", n, slots)
	}
}

func TestFullLineForgetsItsOldest(t *testing.T) {
	table := newTable(4, hash.NewSeed()) // one line for the unproven, three for the rest
	d, err := New(Config{FailedWindow: time.Minute}, table)
	if err != nil {
		t.Fatal(err)
	}
	r := get("/x")
	r.Client.Class = comporta.ClassAnonymous
	see := func(now time.Time, key uint64) comporta.Sighting {
		r.Client.Key, r.Sighting = key, comporta.Sighting{}
		d.SeeAt(now, r, 0, false)
		return r.Sighting
	}
	for i := range uint64(9) {
		see(noon.Add(time.Duration(i)*time.Second), i+1)
	}
	if n := table.Evictions(); n != 1 {
		t.Errorf("%d evictions, want 1", n)
	}
	now := noon.Add(10 * time.Second)
	for key := uint64(9); key >= 2; key-- { // from the youngest on: a miss would evict another
		if s := see(now, key); s.Attempts != 2 {
			t.Errorf("client %d was forgotten", key)
		}
	}
	if s := see(now, 1); s.Attempts != 1 {
		t.Error("the oldest sighting was kept")
	}
	// Old slots are free: a minute later nobody is evicted.
	was := table.Evictions()
	for i := range uint64(8) {
		see(now.Add(time.Minute), 100+i)
	}
	if table.Evictions() != was {
		t.Error("an old sighting counts as evicted")
	}
}

// What is settled makes room for what will come again.
func TestFullLineForgetsWhatIsSettled(t *testing.T) {
	table := newTable(4, hash.NewSeed())
	d, err := New(Config{}, table)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(now time.Time, key uint64, o comporta.Outcome) comporta.Sighting {
		r := get("/x")
		r.Client.Class, r.Client.Key = comporta.ClassAnonymous, key
		run(d, now, r, 0, o)
		return r.Sighting
	}
	failed, ok := answered(503), answered(200)
	for i := range uint64(7) {
		ask(noon, 1+i, failed)
	}
	for i := range uint64(100) { // younger by far, but one place is enough for them
		ask(noon.Add(20*time.Minute), 100+i, ok)
	}
	for i := range uint64(7) {
		if s := ask(noon.Add(20*time.Minute), 1+i, failed); s.Kind != comporta.KindRetry {
			t.Errorf("client %d: the failure of before is %v", 1+i, s.Kind)
		}
	}
	if n := table.Evictions(); n != 99 {
		t.Errorf("%d evictions, want 99", n)
	}
}

// The table of bits says what the words of the comment say.
func TestSettled(t *testing.T) {
	for c := range code(1 << codeBits) {
		for s := range state(4) {
			want := s == stateSuccess || s == stateAnswered && !c.fault()
			if got := newWord(1, 1).with(1, 1, 0, c, s).settled() == 1; got != want {
				t.Errorf("code %d, state %d: settled is %t", c, s, got)
			}
		}
	}
}

func TestProvingOneselfKeepsTheSighting(t *testing.T) {
	d := newDetector(t, Config{})
	anonymous, proven := get("/x"), get("/x")
	anonymous.Client.Class = comporta.ClassAnonymous
	run(d, noon, again(anonymous), 0, answered(500))

	r := again(proven)
	run(d, noon, r, 0, answered(500))
	if r.Sighting.Kind != comporta.KindRetry || r.Sighting.Attempts != 2 {
		t.Fatalf("after proving itself: %+v", r.Sighting)
	}
	if slot := r.Sighting.Ref >> refSlotShift; slot < uint64(d.table.quarter.count)*lineSlots {
		t.Error("the sighting still lies in the quarter of the unproven")
	}
	if n := occupied(d.table); n != 1 {
		t.Errorf("%d slots for one fingerprint", n)
	}
}

// An identity whose proof lapses and returns within a window leaves sightings in
// both parts. What counts is the latest.
func TestLapsedProofDoesNotReviveOldFailures(t *testing.T) {
	d := newDetector(t, Config{})
	anonymous, proven := get("/x"), get("/x")
	anonymous.Client.Class = comporta.ClassAnonymous
	first := again(proven)
	run(d, noon, first, 0, answered(500))
	among := d.table.slot(uint32(first.Sighting.Ref >> refSlotShift))
	was := among.Load()

	r := again(anonymous)
	run(d, noon.Add(time.Second), r, 0, answered(200))
	if r.Sighting.Kind != comporta.KindRetry || r.Sighting.Attempts != 2 {
		t.Errorf("after the proof lapsed: %+v", r.Sighting)
	}
	if among.Load() != was {
		t.Error("an unproven client wrote among the believed")
	}
	r = again(proven)
	run(d, noon.Add(time.Second), r, 0, answered(500))
	if r.Sighting.Kind != comporta.KindPoll || r.Sighting.Attempts != 3 {
		t.Errorf("after its success and proof: %+v", r.Sighting)
	}
	if k := kindAt(d, noon.Add(time.Second), anonymous, 0); k != comporta.KindRetry {
		t.Errorf("%v after the latest failure", k)
	}
}

func occupied(t *Table) (n int) {
	for i := range t.lines {
		for j := range t.lines[i] {
			if t.lines[i][j].Load() != 0 {
				n++
			}
		}
	}
	return n
}

func TestRecycledSlotIgnoresTheOutcome(t *testing.T) {
	d := newDetector(t, Config{})
	r := get("/x")
	d.SeeAt(noon, r, 0, false)
	slot := d.table.slot(uint32(r.Sighting.Ref >> refSlotShift))
	other := uint64(newWord(refTag(r.Sighting.Ref)^1|2, tickOf(noon)))
	slot.Store(other)
	d.ResolveAt(noon, r, answered(500))
	if slot.Load() != other {
		t.Error("another fingerprint's slot was written")
	}
	r.Sighting.Ref = ^uint64(0) // of a larger table
	d.ResolveAt(noon, r, answered(500))
}

func TestClock(t *testing.T) {
	const wrap = (1 << tickBits) * tickLength
	for _, c := range []struct {
		name string
		step time.Duration
		want comporta.Kind
	}{
		{"back within the window", -59 * time.Second, comporta.KindRetry},
		{"back beyond the window", -2 * time.Minute, comporta.KindOriginal},
		{"back by years", -20 * 365 * 24 * time.Hour, comporta.KindOriginal},
		{"a day on", 24 * time.Hour, comporta.KindOriginal},
		{"half a turn of the ticks", wrap / 2, comporta.KindOriginal},
		{"a turn less two windows", wrap - 2*time.Minute, comporta.KindOriginal},
		{"a turn and a window", wrap + time.Minute, comporta.KindOriginal},
		{"a turn: the one documented mistake", wrap, comporta.KindRetry},
	} {
		d := newDetector(t, Config{FailedWindow: time.Minute})
		r := get("/x")
		run(d, noon, r, 0, answered(500))
		if k := kindAt(d, noon.Add(c.step), r, 0); k != c.want {
			t.Errorf("%s: %v, want %v", c.name, k, c.want)
		}
	}
	for _, at := range []time.Time{{}, time.Unix(1<<60, 0), time.Unix(-1<<60, 0)} {
		d := newDetector(t, Config{})
		run(d, at, get("/x"), 0, answered(500)) // any instant will do
	}
}

// TestHammer lets many goroutines see and resolve the same few fingerprints.
func TestHammer(t *testing.T) {
	d := newDetector(t, Config{})
	const workers, rounds, prints = 8, 4000, 16
	var retries atomic.Int64
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(w), 1))
			outcomes := []comporta.Outcome{answered(200), answered(500), answered(422), ended(comporta.ResultRefused, 0)}
			for range rounds {
				r := post("/x")
				r.Client.Key = 1 + rnd.Uint64N(prints)
				if rnd.IntN(2) == 0 {
					r.Client.Class = comporta.ClassAnonymous
				}
				d.SeeAt(noon, r, 5, false)
				if r.Sighting.Ref == 0 || r.Sighting.Attempts < 1 {
					t.Errorf("not filed: %+v", r.Sighting)
					return
				}
				if r.Sighting.Kind.Repeat() {
					retries.Add(1)
				}
				d.ResolveAt(noon, r, outcomes[rnd.IntN(len(outcomes))])
			}
		})
	}
	wg.Wait()
	if retries.Load() == 0 {
		t.Error("nobody was seen to repeat")
	}
	// A fingerprint has a slot in each part. Two goroutines that file one for the
	// first time at the same moment may each take a place: the slots follow the
	// fingerprints and the goroutines, never the 32,000 requests.
	if n := occupied(d.table); n > 2*prints+2*workers {
		t.Errorf("%d slots for %d fingerprints", n, prints)
	}
}

// TestEverySightingIsCounted: concurrent sightings of a fingerprint that is on file
// are all different attempts. Of the very first one two goroutines may each take a
// place; see TestHammer.
func TestEverySightingIsCounted(t *testing.T) {
	d := newDetector(t, Config{})
	const workers, each = 8, 25
	var seen [1 + workers*each]atomic.Int64
	first := get("/x")
	d.SeeAt(noon, first, 0, false)
	seen[first.Sighting.Attempts-1].Add(1)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range each {
				r := get("/x")
				d.SeeAt(noon, r, 0, false)
				seen[r.Sighting.Attempts-1].Add(1)
			}
		})
	}
	wg.Wait()
	for i := range seen {
		if n := seen[i].Load(); n != 1 {
			t.Errorf("attempt %d was handed out %d times", i+1, n)
		}
	}
}
