package hash

import "testing"

func TestPartsDoNotRunTogether(t *testing.T) {
	s := NewSeed()
	names := map[uint64]string{}
	for _, parts := range [][]string{
		{"a|b", "c"}, {"a", "b|c"}, {"a", "b", "c"}, {"abc"}, {"", "abc"}, {"abc", ""}, {"c", "b", "a"}, {}, {""}, {"", ""},
	} {
		sum := s.Start()
		for _, p := range parts {
			sum = sum.Str(p)
		}
		if was, ok := names[sum.Name()]; ok {
			t.Errorf("%q has the name of %s", parts, was)
		}
		names[sum.Name()] = "another"
	}
}

func TestNameIsStableAndKeyed(t *testing.T) {
	a, b := NewSeed(), NewSeed()
	if a.Start().Str("x").Uint(7).Name() != a.Start().Bytes([]byte("x")).Uint(7).Name() {
		t.Error("Str and Bytes of the same part differ")
	}
	if a.Start().Str("x").Name() == b.Start().Str("x").Name() {
		t.Error("two seeds agree")
	}
	if n := testing.AllocsPerRun(100, func() { _ = a.Start().Str("GET").Str("/orders").Uint(1).Name() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
