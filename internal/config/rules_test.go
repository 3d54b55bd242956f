package config

import (
	"strings"
	"testing"
)

// cases/overload.md 6: a weight that can never fit is found when the
// configuration is read, not by a request that waits for ever.
func TestCase_Overload_A6_WeightAboveCapacity(t *testing.T) {
	for _, tt := range []struct {
		capacity, route string
		wrong           bool
	}{
		{"4", "weight: 4", false},
		{"4", "weight: 5", true},
		{"10", "weight: 5, share: 0.5", false},
		{"10", "weight: 6, share: 0.5", true},
		{"10", "weight: 6, share: 0.51", false}, // a share is rounded up
		{"{max: 8}", "weight: 8", false},        // a warning: it may be learned to less
		{"{max: 8}", "weight: 9", true},
		{"auto", "weight: 1000", false},
	} {
		text := "admission: {capacity: " + tt.capacity + "}\nroutes: [{match: /a, " + tt.route + "}]\n"
		_, _, problems := loadText(t, text, Input{WithoutUpstream: true})
		if got := len(problems) == 1 && problems[0].Path == "routes[0].weight"; got != tt.wrong || len(problems) > 1 {
			t.Errorf("%s: got %v", text, problems)
		}
	}
}

// wire.md 7: what others can reach needs a token file; probes do not.
func TestAdminOffLoopbackNeedsAToken(t *testing.T) {
	for addr, safe := range map[string]bool{
		"127.0.0.1:9900": true, "127.8.9.1:1": true, "[::1]:9900": true, "localhost:9900": true, "LOCALHOST:9900": true, "[::ffff:127.0.0.1]:1": true,
		":9900": false, "0.0.0.0:9900": false, "[::]:9900": false, "10.0.0.1:9900": false, "localhost.example:9900": false, "admin:9900": false,
	} {
		text := "admin: {probes: \":9901\", listen: \"" + addr + "\"}\n"
		_, _, problems := loadText(t, text, Input{WithoutUpstream: true})
		if (problems == nil) != safe {
			t.Errorf("%s: got %v", addr, problems)
		}
		mustLoad(t, strings.Replace(text, "{", "{token_file: t, ", 1), Input{})
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]Size{
		"0": 0, "1": 1, "100B": 100, "1024": kib, "64KiB": 64 * kib, "64 KiB": 64 * kib, "3MiB": 3 * mib, "1GiB": gib, "2TiB": 2 * tib,
	} {
		got, f := parseSize(text)
		if f != nil || got != want {
			t.Errorf("parseSize(%q) = %v, %v, want %v", text, got, f, want)
		}
		if again, f := parseSize(got.String()); f != nil || again != got {
			t.Errorf("%v is written %q and read as %v, %v", got, got.String(), again, f)
		}
	}
	for _, text := range []string{"", "-", "KiB", "1KB", "1kib", "1.5MiB", "1MiBMiB", "0x10", "99999999999999999999", "9999999999TiB", "-1TiB", "1e3", "١KiB"} {
		if got, f := parseSize(text); f == nil {
			t.Errorf("parseSize(%q) = %v, want a fault", text, got)
		}
	}
}

func TestSuggestions(t *testing.T) {
	words := []string{"calendar", "spread", "hash", "listen", "limits", "on"}
	for word, want := range map[string]string{
		"calender": "calendar", "CALENDAR": "calendar", "hsah": "hash", "listne": "listen", "limit": "limits",
		"x": "", "": "", "something": "", "ab": "", strings.Repeat("a", 1<<16): "",
	} {
		if got := nearest(word, words); got != want {
			t.Errorf("nearest(%.20q) = %q, want %q", word, got, want)
		}
	}
}
