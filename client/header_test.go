package client

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The text is never more than what is left, and at most a hundredth less.
func TestTimeoutValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.Int64Range(1, 1<<40).Draw(t, "ms")
		said, err := strconv.ParseInt(timeoutValue(ms)[0], 10, 64)
		day := int64(24 * time.Hour / time.Millisecond)
		if want := min(ms, day); err != nil || said > want || float64(said) < float64(want)*0.99 {
			t.Fatalf("%d ms is said as %d (%v)", ms, said, err)
		}
	})
	for ms, want := range map[int64]string{1: "1", 999: "999", 1000: "1000", 1009: "1000", 9999: "9990", 10000: "10000", 12345: "12300", 99999: "99900", 1 << 50: "86400000"} {
		if got := timeoutValue(ms)[0]; got != want {
			t.Errorf("%d: %q, want %q", ms, got, want)
		}
	}
}

func TestTicketOf(t *testing.T) {
	for _, c := range []struct {
		values []string
		want   string
	}{
		{nil, ""}, {[]string{"v1.x"}, "v1.x"}, {[]string{"a", "b"}, ""},
		{[]string{strings.Repeat("x", 200)}, strings.Repeat("x", 200)}, {[]string{strings.Repeat("x", 201)}, ""},
	} {
		if got := ticketOf(http.Header{"Retry-Ticket": c.values}); got != c.want {
			t.Errorf("%q: %q", c.values, got)
		}
	}
}

// The caller's values are shared, and its map is never written to.
func TestHeaderIsTheCallersUntilThereIsSomethingToAdd(t *testing.T) {
	req := request(t, t.Context(), "GET")
	c := &call{caller: req, version: &value{}, announced: true}
	req.Header.Set("Retry-Attempt", "0")
	req.Header.Set("Request-Timeout-Ms", "1000")
	a := attempt{context: attemptContext{call: c}, number: 1}
	a.header(time.Minute)["Probe"] = nil
	if _, same := req.Header["Probe"]; !same {
		t.Error("the map was copied although there was nothing to add")
	}
	a.number = 2
	h := a.header(time.Minute)
	if h.Get("Retry-Attempt") != "1" || req.Header.Get("Retry-Attempt") != "0" || &h["Accept"][0] != &req.Header["Accept"][0] {
		t.Errorf("%v beside %v", h, req.Header)
	}
	h.Add("Retry-Attempt", "x") // no line has room in another's place
	if h.Get("Request-Timeout-Ms") == "x" {
		t.Error("lines share room")
	}
}

func TestDestinationsAreBounded(t *testing.T) {
	c, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	busy := c.destinations.of("busy")
	for i := range 10_000 {
		c.destinations.of(strconv.Itoa(i))
		if i%100 == 0 && c.destinations.of("busy") != busy {
			t.Fatal("one that is in use was lost")
		}
	}
	if n := len(c.destinations.newer) + len(c.destinations.older); n > 2*c.destinations.limit {
		t.Errorf("%d destinations", n)
	}
}
