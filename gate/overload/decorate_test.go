package overload

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/internal/retryafter"
)

var testNow = time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)

// slotIn is a Slot that gives one instant, whatever it is asked for.
func slotIn(wait time.Duration) func(time.Duration) (time.Duration, []byte) {
	return func(time.Duration) (time.Duration, []byte) { return wait, []byte("v1.ours") }
}

func headerOf(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i+1 < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

// TestCase_Overload_D34_NeverLowered gives answers that name an instant of their
// own, in every spelling, to a gate that would say 30 s.
// cases/overload.md 34, cases/proxy.md 37
func TestCase_Overload_D34_NeverLowered(t *testing.T) {
	t.Parallel()
	date := func(d time.Duration) string { return testNow.Add(d).Format(http.TimeFormat) }
	for _, c := range []struct {
		name              string
		in                http.Header
		after, ms, ticket string
	}{
		{"nothing said", headerOf(), "30", "29500", "v1.ours"},
		{"sooner", headerOf("Retry-After", "5"), "30", "29500", "v1.ours"},
		{"zero", headerOf("Retry-After", "0"), "30", "29500", "v1.ours"},
		{"later", headerOf("Retry-After", "120"), "120", "", ""},
		{"later, theirs has a ticket", headerOf("Retry-After", "120", "Retry-Ticket", "v1.theirs"), "120", "", "v1.theirs"},
		{"sooner, theirs has a ticket", headerOf("Retry-After", "2", "Retry-Ticket", "v1.theirs"), "30", "29500", "v1.ours"},
		{"sooner in ms", headerOf("Retry-After-Ms", "500"), "30", "29500", "v1.ours"},
		{"later in ms only", headerOf("Retry-After-Ms", "60500"), "61", "60500", ""},
		{"both, consistent, later", headerOf("Retry-After", "61", "Retry-After-Ms", "60500"), "61", "60500", ""},
		{"both, contradicting", headerOf("Retry-After", "1", "Retry-After-Ms", "60000"), "60", "60000", ""},
		{"both, ms sooner", headerOf("Retry-After", "60", "Retry-After-Ms", "10"), "60", "60000", ""},
		{"garbage", headerOf("Retry-After", "soon", "Retry-After-Ms", "-4"), "30", "29500", "v1.ours"},
		{"negative", headerOf("Retry-After", "-1"), "30", "29500", "v1.ours"},
		{"40 digits", headerOf("Retry-After", strings.Repeat("9", 40)), "2073600", "", ""},
		{"later date", headerOf("Retry-After", date(time.Hour)), "3600", "", ""},
		{"past date", headerOf("Retry-After", date(-time.Hour)), "30", "29500", "v1.ours"},
		{"date by their clock, sooner", headerOf("Date", date(time.Hour), "Retry-After", date(time.Hour+10*time.Second)), "30", "29500", "v1.ours"},
		{"date by their clock, later", headerOf("Date", date(-time.Hour), "Retry-After", date(0)), "3600", "", ""},
	} {
		for _, status := range []int{429, 503} {
			h := c.in.Clone()
			v := Decorate(h, status, &Decoration{Now: testNow, Slot: slotIn(29500 * time.Millisecond)})
			if v != Unsaid || h.Get("Retry-After") != c.after || h.Get("Retry-After-Ms") != c.ms || h.Get("Retry-Ticket") != c.ticket {
				t.Errorf("%s, %d: %v, %q, %q, %q; want %q, %q, %q", c.name, status, v,
					h.Get("Retry-After"), h.Get("Retry-After-Ms"), h.Get("Retry-Ticket"), c.after, c.ms, c.ticket)
			}
			if h.Get("X-Should-Retry") != "" {
				t.Errorf("%s: x-should-retry %q invented", c.name, h.Get("X-Should-Retry"))
			}
		}
	}
}

// TestCase_Proxy_D37_OneCleanLineEach gives answers whose lines contradict each
// other, cannot be read or are absurd. cases/proxy.md 37
func TestCase_Proxy_D37_OneCleanLineEach(t *testing.T) {
	t.Parallel()
	forty := strings.Repeat("9", 40)
	for _, c := range []struct {
		name      string
		in        http.Header
		ours      time.Duration
		after, ms string // lines joined by commas
	}{
		{"absurd and negative", headerOf("Retry-After", forty, "Retry-After", "-5"), time.Minute, "2073600", ""},
		{"absurd ms", headerOf("Retry-After-Ms", "31536000000"), time.Minute, "2073600", "2073600000"},
		{"two readable", headerOf("Retry-After", "5", "Retry-After", "120"), time.Minute, "120", ""},
		{"garbage ms beside a good line", headerOf("Retry-After", "120", "Retry-After-Ms", "soon"), time.Minute, "120", "120000"},
		{"two ms", headerOf("Retry-After-Ms", "90000", "Retry-After-Ms", "-1"), time.Minute, "90", "90000"},
		{"spaces and zeros", headerOf("Retry-After", " 0120 "), time.Minute, "120", ""},
		{"garbage, and we have no instant", headerOf("Retry-After", "soon", "Retry-After", "-5", "Retry-After-Ms", "x"), 0, "", ""},
		{"zero, and we have no instant", headerOf("Retry-After", "0", "Retry-After-Ms", "0"), 0, "1", "1"},
		{"small, and we have no instant", headerOf("Retry-After", "3", "Retry-After", "x"), 0, "3", ""},
	} {
		var slot func(time.Duration) (time.Duration, []byte)
		if c.ours > 0 {
			slot = slotIn(c.ours)
		}
		for _, status := range []int{429, 503} {
			h := c.in.Clone()
			Decorate(h, status, &Decoration{Now: testNow, Slot: slot})
			after, ms := strings.Join(h["Retry-After"], ","), strings.Join(h["Retry-After-Ms"], ",")
			if after != c.after || ms != c.ms {
				t.Errorf("%s, %d: %q and %q, want %q and %q", c.name, status, after, ms, c.after, c.ms)
			}
		}
	}
	for _, c := range []struct{ in, want []string }{
		{[]string{forty}, []string{"2073600000"}},
		{[]string{" 090000 "}, []string{"90000"}},
		{[]string{"250", "-5"}, []string{"-1"}}, // said twice means stop, by gRFC A6
		{[]string{"soon"}, []string{"-1"}},
	} {
		h := http.Header{"Grpc-Status": {"14"}, "Grpc-Retry-Pushback-Ms": c.in}
		Decorate(h, 200, &Decoration{Now: testNow, Slot: slotIn(time.Minute)})
		if got := h["Grpc-Retry-Pushback-Ms"]; !slices.Equal(got, c.want) {
			t.Errorf("pushback %q: %q, want %q", c.in, got, c.want)
		}
	}
}

// TestDecorateAsksForNoLessThanTheService checks what the calendar is asked for,
// and that nobody asks it where a client should not return.
func TestDecorateAsksForNoLessThanTheService(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		in     http.Header
		want   time.Duration // -1: not asked
	}{
		{503, headerOf("Retry-After", "7"), 7 * time.Second},
		{429, headerOf("Retry-After", "8", "Retry-After-Ms", "7250"), 7250 * time.Millisecond},
		{503, headerOf(), 0},
		{503, headerOf("X-Should-Retry", "false"), -1},
		{500, headerOf("Retry-After", "7"), -1},
		{422, headerOf(), -1},
		{200, headerOf("Retry-After", "7"), -1},
		{200, headerOf("Grpc-Status", "14", "Grpc-Retry-Pushback-Ms", "90"), 90 * time.Millisecond},
		{200, headerOf("Grpc-Status", "14", "Grpc-Retry-Pushback-Ms", "-1"), -1},
		{200, headerOf("Grpc-Status", "0"), -1},
	} {
		asked := time.Duration(-1)
		Decorate(c.in, c.status, &Decoration{Now: testNow, Slot: func(atLeast time.Duration) (time.Duration, []byte) {
			asked = atLeast
			return 0, nil
		}})
		if asked != c.want {
			t.Errorf("%d %v: asked for %v, want %v", c.status, c.in, asked, c.want)
		}
	}
}

// TestCase_Overload_D32_DeterministicStops checks that what a repeat would meet
// again says so and names no time, also over gRPC. // cases/overload.md 32
func TestCase_Overload_D32_DeterministicStops(t *testing.T) {
	t.Parallel()
	full := func() http.Header {
		return headerOf("Retry-After", "5", "Retry-After-Ms", "5000", "Retry-Ticket", "v1.theirs", "X-Should-Retry", "true")
	}
	for _, c := range []struct {
		status   int
		hopeless bool
	}{{422, false}, {400, false}, {404, false}, {501, false}, {500, true}, {503, true}, {429, true}} {
		h := full()
		v := Decorate(h, c.status, &Decoration{Now: testNow, Hopeless: c.hopeless, Slot: slotIn(time.Second)})
		if v != Stop || h.Get("X-Should-Retry") != "false" || len(h) != 1 {
			t.Errorf("%d hopeless %t: %v %v", c.status, c.hopeless, v, h)
		}
	}
	for _, c := range []struct {
		status   string
		hopeless bool
	}{{"3", false}, {"5", false}, {"12", false}, {"13", true}, {"14", true}} {
		h := headerOf("Grpc-Status", c.status, "Grpc-Retry-Pushback-Ms", "100")
		v := Decorate(h, 200, &Decoration{Now: testNow, Hopeless: c.hopeless, Slot: slotIn(time.Second)})
		if v != Stop || h.Get("Grpc-Retry-Pushback-Ms") != "-1" {
			t.Errorf("grpc %s hopeless %t: %v %v", c.status, c.hopeless, v, h)
		}
	}
}

// TestDecorateSaysWhatTheServiceSays reads every place in which a service may
// have its say.
func TestDecorateSaysWhatTheServiceSays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		in   http.Header
		body string
		want Verdict
		said string
	}{
		{"stripe no", headerOf("Stripe-Should-Retry", "false"), "", Stop, "false"},
		{"stripe yes", headerOf("Stripe-Should-Retry", "TRUE"), "", Again, "true"},
		{"stripe before ours", headerOf("Stripe-Should-Retry", "false", "X-Should-Retry", "true"), "", Stop, "false"},
		{"ours", headerOf("X-Should-Retry", " false "), "", Stop, "false"},
		{"garbage", headerOf("Stripe-Should-Retry", "maybe"), "", Unsaid, ""},
		{"pushback", headerOf("Grpc-Retry-Pushback-Ms", "-1"), "", Stop, "false"},
		{"pushback yes", headerOf("Grpc-Retry-Pushback-Ms", "10"), "", Again, "true"},
		{"pushback garbage", headerOf("Grpc-Retry-Pushback-Ms", "x"), "", Stop, "false"},
		{"body no", headerOf(), `{"code":"x","retryable":false}`, Stop, "false"},
		{"body yes", headerOf(), `{"erro":"x","repetivel":true}`, Again, "true"},
		{"header before body", headerOf("X-Should-Retry", "true"), `{"retryable":false}`, Again, "true"},
		{"nothing", headerOf(), `{"error":{"retryable":false}}`, Unsaid, ""},
	} {
		v := Decorate(c.in, 500, &Decoration{Now: testNow, Body: []byte(c.body)})
		if v != c.want || c.in.Get("X-Should-Retry") != c.said {
			t.Errorf("%s: %v, x-should-retry %q; want %v, %q", c.name, v, c.in.Get("X-Should-Retry"), c.want, c.said)
		}
	}
}

// TestDecorateGRPC checks the pushback of failures that pass by themselves.
func TestDecorateGRPC(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status, in, want string
		verdict          Verdict
	}{
		{"14", "", "2500", Again},
		{"8", "100", "2500", Again},
		{"14", "60000", "60000", Again},
		{"14", "-1", "-1", Stop},
		{"13", "", "", Unsaid},
		{"0", "", "", Unsaid},
		{"x", "", "", Unsaid},
	} {
		h := headerOf("Grpc-Status", c.status)
		if c.in != "" {
			h.Set("Grpc-Retry-Pushback-Ms", c.in)
		}
		v := Decorate(h, 200, &Decoration{Now: testNow, Slot: slotIn(2500 * time.Millisecond)})
		if v != c.verdict || h.Get("Grpc-Retry-Pushback-Ms") != c.want {
			t.Errorf("status %s, pushback %q: %v, %q; want %v, %q", c.status, c.in, v, h.Get("Grpc-Retry-Pushback-Ms"), c.verdict, c.want)
		}
	}
}

// TestDecorateTouchesNothingElse checks that a service cannot speak as the
// gateway, and that what is no refusal passes unchanged.
func TestDecorateTouchesNothingElse(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 304, 401, 409, 500, 502} {
		h := headerOf("Comporta-Decision", "draining", "Content-Type", "text/plain", "Retry-After", "9", "Retry-Ticket", "v1.t")
		h["comporta-other"] = []string{"x"}
		h["Comporta-"] = []string{"x"}
		if v := Decorate(h, status, &Decoration{Now: testNow, Slot: slotIn(time.Minute)}); v != Unsaid {
			t.Errorf("%d: %v", status, v)
		}
		if len(h) != 3 || h.Get("Retry-After") != "9" || h.Get("Retry-Ticket") != "v1.t" {
			t.Errorf("%d: %v", status, h)
		}
	}
}

// FuzzDecorate holds for every header of a service: the instant that goes out is
// neither before the service's nor before ours, and a stop names none of ours.
func FuzzDecorate(f *testing.F) {
	f.Add(503, "5", "500", "true", "", int64(3000))
	f.Add(429, "Wed, 06 May 2026 07:08:19 GMT", "", "", `{"retryable":true}`, int64(1))
	f.Add(500, "abc", "-", "x", `{"repetivel":false}`, int64(0))
	f.Fuzz(func(t *testing.T, status int, after, ms, should, body string, ours int64) {
		slot := time.Duration(ours%1e8) * time.Millisecond
		h := headerOf("Retry-After", after, "Retry-After-Ms", ms, "X-Should-Retry", should)
		before := retryafter.WaitAt(testNow, h)
		v := Decorate(h, status, &Decoration{Now: testNow, Body: []byte(body), Slot: slotIn(slot)})
		if v == Stop && h.Get("X-Should-Retry") == "" {
			t.Fatal("a stop was not said")
		}
		if v == Stop || (status != 429 && status != 503) {
			return
		}
		out := retryafter.WaitAt(testNow, h)
		for _, name := range []string{"Retry-After", "Retry-After-Ms"} {
			if vs := h[name]; len(vs) > 1 || len(vs) == 1 && (strings.Trim(vs[0], "0123456789") != "" || vs[0][0] == '0') {
				t.Fatalf("%s: %q", name, vs)
			}
		}
		if bound := min(max(before.Exact(), slot), longest); out.After < bound || (out.HasPrecise && out.Precise < bound) {
			t.Fatalf("says %v and %v, want at least %v (service %v)", out.After, out.Precise, bound, before)
		}
	})
}

func TestVerdictString(t *testing.T) {
	t.Parallel()
	if Stop.String() != "stop" || Verdict(9).String() != "unknown" || comporta.Deterministic(503) {
		t.Error("names moved")
	}
}
