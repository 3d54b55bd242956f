package retrypolicy

import (
	"strings"
	"testing"
	"time"
)

func TestParseBrief(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want Brief
		ok   bool
	}{
		{"max=1;min-ms=2000;ttl=600", Brief{1, 2 * time.Second, 10 * time.Minute}, true},
		{" ttl=600 ; max=2 ", Brief{2, 0, 10 * time.Minute}, true},
		{"min-ms=0", Brief{0, 0, DefaultTTL}, true},
		{"max=0;ttl=5", Brief{1, 0, 5 * time.Second}, true},
		{"max=1;ttl=0", Brief{1, 0, 0}, true},
		{"max=3;colour=blue;;ttl=1", Brief{3, 0, time.Second}, true},
		{"max=" + strings.Repeat("9", 40), Brief{MaxAttempts, 0, DefaultTTL}, true},
		{"max=1;min-ms=" + strings.Repeat("9", 40), Brief{1, MaxWait, DefaultTTL}, true},
		{"max=1;ttl=" + strings.Repeat("9", 40), Brief{1, 0, MaxTTL}, true},

		{"", Brief{}, false},
		{"ttl=600", Brief{}, false}, // says nothing
		{"max", Brief{}, false},
		{"max=", Brief{}, false},
		{"max=-1", Brief{}, false},
		{"max=+1", Brief{}, false},
		{"max=1.5", Brief{}, false},
		{"max=0x1", Brief{}, false},
		{"max=1;max=2", Brief{}, false},
		{"max=1;ttl=soon", Brief{}, false},
		{"max=1, max=2", Brief{}, false},
		{"max=1;" + strings.Repeat(";", 300), Brief{}, false},
	} {
		if got, ok := ParseBrief(tt.in); got != tt.want || ok != tt.ok {
			t.Errorf("%q: %+v %v, want %+v %v", tt.in, got, ok, tt.want, tt.ok)
		}
	}
	if n := testing.AllocsPerRun(100, func() { ParseBrief("max=1;min-ms=2000;ttl=600") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzParseBrief(f *testing.F) {
	f.Add("max=1;min-ms=2000;ttl=600")
	f.Add("max=0;ttl=99999999999999999999")
	f.Fuzz(func(t *testing.T, v string) {
		b, ok := ParseBrief(v)
		if !ok && b != (Brief{}) {
			t.Fatalf("%+v of what is not ok", b)
		}
		if b.MaxAttempts < 0 || b.MaxAttempts > MaxAttempts || b.MinWait < 0 || b.MinWait > MaxWait || b.TTL < 0 || b.TTL > MaxTTL {
			t.Fatalf("%+v", b)
		}
	})
}
