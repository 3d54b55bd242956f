package measure

import (
	"strings"
	"testing"
)

func TestSummary(t *testing.T) {
	s := &Subject{Name: "it", samples: []Sample{
		{NS: 20, CPU: 31, Allocs: 1.004, Bytes: 16.4},
		{NS: 30, CPU: 29, Allocs: 1.2, Bytes: 16.1},
		{NS: 25, CPU: 30, Allocs: 1.1, Bytes: 17},
	}}
	want := Summary{Sample{NS: 20, CPU: 29, Allocs: 1, Bytes: 16}, 30}
	if got := s.Summary(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Who comes first in a round might find the cache colder.
func TestTurnsAlternate(t *testing.T) {
	a, b, c := &Subject{Name: "a"}, &Subject{Name: "b"}, &Subject{Name: "c"}
	for round, want := range []string{"abc", "acb", "abc"} {
		var got strings.Builder
		for _, s := range turn(round, []*Subject{a}, []Pair{{Ours: b, Theirs: c}}) {
			got.WriteString(s.Name)
		}
		if got.String() != want {
			t.Errorf("round %d: %s, want %s", round, got.String(), want)
		}
	}
}

func TestSpendTendsUnmeasured(t *testing.T) {
	var chunks []int
	tended := 0
	var rubbish [][]byte
	s := &Subject{
		Run:   func(n int) error { chunks = append(chunks, n); return nil },
		Tend:  func() error { tended++; rubbish = append(rubbish, make([]byte, 1<<20)); return nil },
		Chunk: 10,
	}
	total, err := s.spend(25)
	if err != nil || len(chunks) != 3 || chunks[2] != 5 || tended != 3 {
		t.Errorf("chunks %v, tended %d, error %v", chunks, tended, err)
	}
	if total.Bytes > 1<<19 {
		t.Errorf("%v bytes measured of %d MiB that Tend allocated", total.Bytes, len(rubbish))
	}
}

func TestPrint(t *testing.T) {
	var out strings.Builder
	met, missed := Verdict{"a_ns", true, "4 ns", "<= 5 ns"}, Verdict{"b", false, "6", "5"}
	if Print(&out, []Verdict{met}) != 0 || Print(&out, []Verdict{missed, met}) != 1 {
		t.Error("the wrong status")
	}
	const want = "PASS a_ns 4 ns (target <= 5 ns)\nMISS b 6 (target 5)\nPASS a_ns 4 ns (target <= 5 ns)\n"
	if out.String() != want {
		t.Errorf("got\n%s", out.String())
	}
}

func TestReplace(t *testing.T) {
	begin, end := BeginMark("it"), EndMark("it")
	text := "before\n" + begin + "\nold\n" + end + "\nafter\n"
	want := "before\n" + begin + "\nnew\n" + end + "\nafter\n"
	for range 2 { // the second time changes nothing
		got, err := replace([]byte(text), "it", "new\n")
		if err != nil || string(got) != want {
			t.Fatalf("%v\n%s", err, got)
		}
		text = string(got)
	}
	for _, text := range []string{"", begin, end, end + begin} {
		if _, err := replace([]byte(text), "it", "new\n"); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}
