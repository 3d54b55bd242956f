package calendar

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestSlot_Pack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := slot{
			due:     rapid.Int64Range(0, maxDue).Draw(t, "due"),
			window:  rapid.Int64Range(0, maxWindow).Draw(t, "window"),
			attempt: rapid.IntRange(0, maxAttempt).Draw(t, "attempt"),
			flags:   rapid.Uint64Range(0, 15).Draw(t, "flags"),
		}
		if got := unpack(s.pack()); got != s {
			t.Fatalf("%+v became %+v", s, got)
		}
	})
}

// What pushes out what, in one full line.
func TestDueTable_Eviction(t *testing.T) {
	const now = 1_700_000_000_000
	table := newDueTable(1) // one line in each shard
	at := func(i int) uint64 { return uint64(i+1) * tableShards }
	mine := slot{due: now + 5000, window: 5, flags: slotBelieved}
	fill := func(flags uint64) {
		clear(table.lines)
		for i := range lineSlots {
			table.put(at(i), slot{due: now + int64(i+1)*1000, window: 5, flags: flags}, now)
		}
	}
	tests := []struct {
		name    string
		full    uint64 // flags of what is there
		put     slot
		filed   bool
		evicted int // which went; -1 none
	}{
		{"the latest due of equals", slotBelieved, mine, true, lineSlots - 1},
		{"plain before all", slotPlain, mine, true, lineSlots - 1},
		{"others before the believed", 0, mine, true, lineSlots - 1},
		{"never the believed for others", slotBelieved, slot{due: now + 1, window: 5}, false, -1},
		{"never a booking for a plain one", 0, slot{due: now + 1, window: 5, flags: slotPlain}, false, -1},
		{"never a spent one for others", slotSpent, slot{due: now + 1, window: 5}, false, -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fill(tt.full)
			if !table.put(at(99), tt.put, now) {
				t.Error("nothing was lost to a full line")
			}
			if _, ok := table.find(at(99), now); ok != tt.filed {
				t.Errorf("filed %v", ok)
			}
			for i := range lineSlots {
				if _, ok := table.find(at(i), now); ok == (i == tt.evicted) {
					t.Errorf("slot %d there: %v", i, ok)
				}
			}
		})
	}
	t.Run("the dead cost nothing", func(t *testing.T) {
		fill(slotBelieved)
		later := int64(now + 1000 + 5000 + 1) // the first has ended
		if table.put(at(99), slot{due: later + 1000, window: 5}, later) {
			t.Error("a live slot was lost")
		}
	})
}

func TestDueRing(t *testing.T) {
	var r dueRing
	now := start.UnixMilli()
	r.add(now+1000, lane(believed), 1)
	r.add(now+1000, lane(others), 1)
	r.add(now+1249, lanePlain, 1)
	r.add(now+2000, lane(believed), 1)
	if got := r.between(now+1000, now+1250); got != (dueCounts{1, 1, 1}) {
		t.Errorf("one quarter: %v", got)
	}
	if got := r.between(now, now+3000); got != (dueCounts{2, 1, 1}) {
		t.Errorf("three seconds: %v", got)
	}
	r.add(now+2000, lane(believed), -1)
	r.add(now+2000, lane(believed), -1)
	if got := r.between(now, now+3000); got != (dueCounts{1, 1, 1}) {
		t.Errorf("after more was taken back than given: %v", got)
	}
	// The next turn of the ring forgets this one.
	turn := now + ringQuarters*quarter
	r.add(turn+1000, lane(others), 1)
	if got := r.between(turn+1000, turn+1250); got != (dueCounts{0, 1, 0}) {
		t.Errorf("the next turn: %v", got)
	}
	for range countMask + 10 {
		r.add(now, lane(others), 1)
	}
	if got := r.between(now, now+1); got != (dueCounts{0, countMask, 0}) {
		t.Errorf("a full count: %v", got)
	}
}

// The record that ends soonest makes room, and a believed one never for a claimed one.
func TestClientTable_Eviction(t *testing.T) {
	table := newClientTable(1)
	key := func(i int) uint64 { return uint64(i+1) * tableShards }
	for i := range lineRecords {
		table.open(key(i), int64(100-i))
	}
	table.open(key(9), 500)
	for i := range lineRecords {
		if gone := table.find(key(i)) == nil; gone != (i == lineRecords-1) {
			t.Errorf("record %d gone: %v", i, gone)
		}
	}
	if table.find(key(9)) == nil {
		t.Error("the new record found no place")
	}
}

func TestRecord_Bookings(t *testing.T) {
	var r record
	sec := start.Unix()
	for i := range maxBookings {
		_, free := r.bookings(sec)
		r.ends[free] = seconds32(sec + int64(i))
	}
	if n, free := r.bookings(sec); n != maxBookings || free != -1 {
		t.Errorf("%d bookings, free %d", n, free)
	}
	r.redeem(sec + 3)
	if n, free := r.bookings(sec); n != maxBookings-1 || free < 0 {
		t.Errorf("%d bookings after one was redeemed, free %d", n, free)
	}
	if n, _ := r.bookings(sec + maxBookings); n != 0 {
		t.Errorf("%d bookings after all have ended", n)
	}
	if n, _ := r.bookings(sec - int64(5*time.Hour/time.Second)); n != 0 {
		t.Errorf("%d bookings after the clock stepped back by hours", n)
	}
}

func TestState_Bytes(t *testing.T) {
	for _, bytes := range []int{MinStateBytes, 3 << 20, DefaultStateBytes, 64 << 20} {
		s, err := NewState(bytes)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Bytes(); got > bytes || got < bytes*75/100 {
			t.Errorf("%d bytes held of %d", got, bytes)
		}
	}
	if _, err := NewState(1000); err == nil {
		t.Error("a state of 1,000 bytes")
	}
}

// The schedule: places a cost apart, and what was taken ahead is paid for.
func TestWord(t *testing.T) {
	const sec, cost = int64(1e9), int64(1e8) // 10 places a second
	w := &word{}
	floor := 1_700_000_000 * sec
	latest := floor + 100*sec
	for i := range int64(5) {
		if due, ok := w.take(floor, latest, cost); !ok || due != floor+i*cost {
			t.Fatalf("place %d at %d", i, due-floor)
		}
	}
	for i := range int64(12) { // two too many for the second after this one
		due, ok := w.takeAhead(floor+sec, latest, cost)
		if want := floor/sec + 1 + i/10; !ok || due/sec != want {
			t.Errorf("place ahead %d in second %d, want %d", i, due/sec, want)
		}
	}
	perSecond := map[int64]int{floor/sec + 1: 10, floor/sec + 2: 2}
	for range 40 {
		due, _ := w.take(floor, latest, cost)
		perSecond[due/sec]++
	}
	for s, n := range perSecond {
		if n > 11 {
			t.Errorf("%d places in second %d", n, s-floor/sec)
		}
	}
	if _, ok := w.take(floor, floor+sec, cost); ok {
		t.Error("a place beyond the bound")
	}
	back := floor - int64(5*time.Hour)
	if due, ok := w.take(back, back+100*sec, cost); !ok || due != back {
		t.Error("a clock that stepped back by hours finds no place")
	}
}
