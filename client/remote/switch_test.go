package remote

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/client"
	"github.com/comporta/comporta/client/retry"
	"github.com/comporta/comporta/internal/retrypolicy"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// api is the destination of these tests, and apiURL where its document is.
const (
	api    = "api.example"
	apiURL = "https://" + api + Path
)

// limits is what a client with the default policy makes of what was said.
func limits(s *Switch, now time.Time, path string) retry.Limits {
	return tightened(s.LimitsAt(now, api, path))
}

func tightened(l retry.Limits) retry.Limits {
	p := retry.Policy{}.Tighten(l)
	return retry.Limits{MaxAttempts: p.MaxAttempts, Total: p.Total, Floor: p.Floor, Cap: p.Cap}
}

// own is what a client allows by itself.
var own = tightened(retry.Limits{})

func allow(attempts int, total, floor, ceiling time.Duration) retry.Limits {
	return retry.Limits{MaxAttempts: attempts, Total: total, Floor: floor, Cap: ceiling}
}

func newSwitch(t testing.TB, c Config) *Switch {
	t.Helper()
	if c.URL == "" {
		c.URL = apiURL
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func apply(t testing.TB, s *Switch, text string) {
	t.Helper()
	if err := s.apply(text, "", false); err != nil {
		t.Fatal(err)
	}
}

func TestOnlyTightens(t *testing.T) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	tests := []struct {
		name, doc string
		want      retry.Limits
	}{
		{"nothing said", `{"version":1}`, own},
		{"fewer attempts", `{"version":1,"max_attempts":2}`, allow(2, own.Total, 0, own.Cap)},
		{"more attempts", `{"version":1,"max_attempts":10}`, own},
		{"switched off", `{"version":1,"retries_enabled":false,"max_attempts":3}`, allow(1, own.Total, 0, own.Cap)},
		{"switched on", `{"version":1,"retries_enabled":true}`, own},
		{"less time", `{"version":1,"total_ms":5000}`, allow(4, ms(5000), 0, own.Cap)},
		{"more time", `{"version":1,"total_ms":3600000}`, own},
		{"a floor", `{"version":1,"min_wait_ms":500}`, allow(4, own.Total, ms(500), own.Cap)},
		{"a higher cap means longer waits", `{"version":1,"max_wait_ms":15000}`, allow(4, own.Total, 0, ms(15000))},
		{"a lower cap means quicker repeats", `{"version":1,"max_wait_ms":1}`, own},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSwitch(t, Config{})
			apply(t, s, tt.doc)
			if got := limits(s, epoch, "/"); got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}

// What the document does not say is so large that a budget keeps its own value.
func TestBudget(t *testing.T) {
	for _, tt := range []struct {
		doc        string
		burst      int
		perSuccess float64
	}{
		{`{"version":1}`, math.MaxInt, 1},
		{`{"version":1,"budget":{"burst":3}}`, 3, 1},
		{`{"version":1,"budget":{"burst":0,"per_success":0}}`, 0, 0},
		{`{"version":1,"budget":{"burst":1000,"per_success":0.05}}`, 1000, 0.05},
	} {
		s := newSwitch(t, Config{})
		apply(t, s, tt.doc)
		if burst, perSuccess := s.Budget(); burst != tt.burst || perSuccess != tt.perSuccess {
			t.Errorf("%s: %v and %v", tt.doc, burst, perSuccess)
		}
	}
}

func TestRoutes(t *testing.T) {
	s := newSwitch(t, Config{})
	apply(t, s, `{"version":1,"max_attempts":2,"min_wait_ms":100,"routes":{
		"/orders":{"max_attempts":1},"/orders/urgent":{"max_attempts":3,"min_wait_ms":0},"/wild/":{"max_attempts":9}}}`)
	for path, want := range map[string]retry.Limits{
		"/":                 allow(2, own.Total, 100*time.Millisecond, own.Cap),
		"/ordersx":          allow(2, own.Total, 100*time.Millisecond, own.Cap),
		"/orders":           allow(1, own.Total, 100*time.Millisecond, own.Cap),
		"/orders/7":         allow(1, own.Total, 100*time.Millisecond, own.Cap),
		"/orders/urgent":    allow(3, own.Total, 0, own.Cap), // a route replaces what the document says for all
		"/orders/urgent/7/": allow(3, own.Total, 0, own.Cap),
		"/wild/x":           allow(4, own.Total, 100*time.Millisecond, own.Cap), // never above the client's own
	} {
		if got := limits(s, epoch, path); got != want {
			t.Errorf("%s: %+v, want %+v", path, got, want)
		}
	}
}

// cases/client.md D13: the switch is quicker than any look at the document.
func TestCase_Client_D13_RetryPolicyOnARefusal(t *testing.T) {
	s := newSwitch(t, Config{})
	if s.HeardAt(epoch, api, "") {
		t.Error("heard nothing, and says so")
	}
	if !s.HeardAt(epoch, api, "max=1;ttl=600") {
		t.Fatal("not heard")
	}
	if got := limits(s, epoch, "/").MaxAttempts; got != 1 {
		t.Errorf("this very call may make %d attempts", got)
	}
	if got := limits(s, epoch.Add(10*time.Minute-1), "/").MaxAttempts; got != 1 {
		t.Errorf("within 10 min: %d attempts", got)
	}
	if got := limits(s, epoch.Add(10*time.Minute), "/"); got != own {
		t.Errorf("after 10 min: %+v", got)
	}
}

func TestHeard(t *testing.T) {
	var heard []string
	s := newSwitch(t, Config{Trace: Trace{Heard: func(destination string, said retry.Limits, lives time.Duration) {
		heard = append(heard, fmt.Sprint(destination, " ", said.MaxAttempts, " ", said.Floor, " ", lives))
	}}})
	apply(t, s, `{"version":1,"max_attempts":3,"min_wait_ms":4000}`)
	now := epoch

	s.HeardAt(now, api, "max=2;min-ms=2000;ttl=600")
	if got, want := limits(s, now, "/"), (allow(2, own.Total, 4*time.Second, own.Cap)); got != want {
		t.Errorf("with the document: %+v, want %+v", got, want)
	}
	s.HeardAt(now, api, "max=9;min-ms=5000;ttl=600") // the operator's last word, within the document
	if got, want := limits(s, now, "/"), (allow(3, own.Total, 5*time.Second, own.Cap)); got != want {
		t.Errorf("the last word: %+v, want %+v", got, want)
	}
	for i := range 100 { // refusals go on, their ttl shrinks: no news
		now = epoch.Add(time.Duration(i) * 1300 * time.Millisecond)
		s.HeardAt(now, api, "max=9;min-ms=5000;ttl="+ttl(600*time.Second-now.Sub(epoch)))
	}
	if s.HeardAt(now, api, "max=garbage;ttl=1") {
		t.Error("garbage was heard")
	}
	if _, left := s.heard.at(now, api); left <= 0 || left > 600*time.Second-now.Sub(epoch)+time.Second {
		t.Errorf("holds for another %v", left)
	}
	if got := s.StatusAt(now).Heard; got != 1 {
		t.Errorf("%d destinations", got)
	}
	s.HeardAt(now, api, "max=1;ttl=0") // taken back
	if got := limits(s, now, "/").MaxAttempts; got != 3 {
		t.Errorf("after it was taken back: %d attempts", got)
	}
	if len(heard) != 3 || heard[0] != "api.example 2 2s 10m0s" || heard[1] != "api.example 9 5s 10m0s" {
		t.Errorf("told of %q", heard)
	}
}

// ttl renders a time as the gateway does: whole seconds, rounded up.
func ttl(d time.Duration) string { return strconv.Itoa(int(math.Ceil(d.Seconds()))) }

// The operator prolongs a policy, or changes only its wait.
func TestHeardAgain(t *testing.T) {
	s := newSwitch(t, Config{})
	s.HeardAt(epoch, api, "max=1;ttl=10")
	s.HeardAt(epoch, api, "max=1;ttl=600")
	for at := time.Duration(0); at < 10*time.Minute; at += 30 * time.Second {
		if got := limits(s, epoch.Add(at), "/").MaxAttempts; got != 1 {
			t.Errorf("prolonged, after %v: %d attempts", at, got)
		}
	}
	s.HeardAt(epoch, api, "max=1;min-ms=500;ttl=600")
	if got := limits(s, epoch, "/").Floor; got != 500*time.Millisecond {
		t.Errorf("floor %v", got)
	}
	s.HeardAt(epoch, api, "max=1;ttl=60") // and shortens it
	if got := limits(s, epoch.Add(time.Minute), "/"); got != own {
		t.Errorf("shortened: %+v", got)
	}
}

// A policy lives no longer because the clock steps back.
func TestHeardWhenTheClockStepsBack(t *testing.T) {
	s := newSwitch(t, Config{})
	s.HeardAt(epoch, api, "max=1;ttl=60")
	then := epoch.Add(-24 * time.Hour)
	if got := limits(s, then, "/").MaxAttempts; got != 1 {
		t.Errorf("%d attempts", got)
	}
	if got := limits(s, then.Add(time.Minute), "/").MaxAttempts; got != 4 {
		t.Errorf("a minute later: %d attempts", got)
	}
}

func TestOlderOrUnreadableChangesNothing(t *testing.T) {
	s := newSwitch(t, Config{})
	apply(t, s, `{"version":7,"max_attempts":2}`)
	for _, text := range []string{
		`{"version":6,"max_attempts":1}`,
		`{"version":8,"max_attempts":0}`,
		`{"max_attempts":1}`, ``, `null`, `[]`, `<html>`,
	} {
		if err := s.apply(text, "", false); err == nil {
			t.Errorf("%s: accepted", text)
		}
		if got := limits(s, epoch, "/").MaxAttempts; got != 2 {
			t.Errorf("%s: %d attempts", text, got)
		}
	}
	apply(t, s, `{"version":7,"max_attempts":1}`) // corrected under the same number
	if got := limits(s, epoch, "/").MaxAttempts; got != 1 {
		t.Errorf("the same version again: %d attempts", got)
	}
}

func TestTooOld(t *testing.T) {
	for _, tt := range []struct {
		version, minimum string
		want             bool
	}{
		{"acme-go/2.0.9", "acme-go/2.1.0", true},
		{"acme-go/2.1.0-rc.1", "acme-go/2.1.0", true},
		{"acme-go/2.1.0", "acme-go/2.1.0", false},
		{"acme-js/1.0.0", "acme-go/2.1.0", false},
		{"", "acme-go/2.1.0", false},
	} {
		version, _ := comporta.ParseClientVersion(tt.version)
		s := newSwitch(t, Config{Version: version})
		apply(t, s, `{"version":1,"minimum_client_version":"`+tt.minimum+`"}`)
		if got := s.TooOld(); got != tt.want || s.StatusAt(epoch).TooOld != tt.want {
			t.Errorf("%q below %q: %v", tt.version, tt.minimum, got)
		}
		apply(t, s, `{"version":2}`)
		if s.TooOld() {
			t.Errorf("%q: still too old", tt.version)
		}
	}
}

func TestPollIsBounded(t *testing.T) {
	for doc, want := range map[string]time.Duration{
		`{"version":1}`:                 time.Minute,
		`{"version":1,"poll_s":30}`:     30 * time.Second,
		`{"version":1,"poll_s":1}`:      minPoll,
		`{"version":1,"poll_s":86400}`:  maxPoll,
		`{"version":1,"poll_s":600000}`: 0,
	} {
		s := newSwitch(t, Config{})
		if err := s.apply(doc, "", false); (err == nil) != (want > 0) {
			t.Fatal(doc, err)
		}
		if got := s.StatusAt(epoch).Poll; want > 0 && got != want {
			t.Errorf("%s: %v", doc, got)
		}
	}
}

func TestPause(t *testing.T) {
	for _, tt := range []struct {
		random      float64
		asked, want time.Duration
	}{
		{0, 0, 48 * time.Second},
		{0.5, 0, time.Minute},
		{1, 0, 72 * time.Second},
		{math.NaN(), 0, 48 * time.Second},
		{0, 2 * time.Minute, 2 * time.Minute},
		{1, 2 * time.Minute, 132 * time.Second},
		{0, 300 * time.Hour, maxPoll},
	} {
		s := newSwitch(t, Config{Rand: func() float64 { return tt.random }})
		if got := s.pause(tt.asked); got != tt.want {
			t.Errorf("random %v, asked %v: %v, want %v", tt.random, tt.asked, got, tt.want)
		}
	}
}

func TestNewNamesEveryProblem(t *testing.T) {
	_, err := New(Config{
		URL: "api.example", File: "/no/such/folder/policy.json", Destinations: []string{"https://api.example"},
		Poll: time.Millisecond,
	})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, field := range []string{"URL", "File", "Destinations[0]", "Poll"} {
		if !strings.Contains(err.Error(), "remote: "+field+":") {
			t.Errorf("%s is not named in:\n%v", field, err)
		}
	}
}

// What one destination says is nothing to another.
func TestDestinations(t *testing.T) {
	s := newSwitch(t, Config{})
	apply(t, s, `{"version":1,"max_attempts":2}`)
	s.HeardAt(epoch, "other.example", "max=1;ttl=60")
	for destination, want := range map[string]int{api: 2, "API.example": 2, "other.example": 1, "third.example": 0} {
		if got := s.LimitsAt(epoch, destination, "/").MaxAttempts; got != want {
			t.Errorf("%s: %d attempts, want %d", destination, got, want)
		}
	}
	s = newSwitch(t, Config{Destinations: []string{"a.example", "b.example:8080"}})
	apply(t, s, `{"version":1,"max_attempts":2}`)
	for destination, want := range map[string]int{api: 0, "a.example": 2, "b.example": 0, "b.example:8080": 2} {
		if got := s.LimitsAt(epoch, destination, "/").MaxAttempts; got != want {
			t.Errorf("%s: %d attempts, want %d", destination, got, want)
		}
	}
}

// The words of more destinations than are kept: those that end first go first.
func TestWordsAreBounded(t *testing.T) {
	s := newSwitch(t, Config{})
	for i := range 3 * maxDestinations {
		s.HeardAt(epoch, fmt.Sprint("host-", i), "max=1;ttl="+strconv.Itoa(60+i))
	}
	if got := s.StatusAt(epoch).Heard; got != maxDestinations {
		t.Errorf("%d destinations, want %d", got, maxDestinations)
	}
	if l := s.LimitsAt(epoch, fmt.Sprint("host-", 3*maxDestinations-1), "/"); l.MaxAttempts != 1 {
		t.Errorf("the newest is gone: %+v", l)
	}
	now := epoch.Add(2 * time.Hour) // all are over
	s.HeardAt(now, api, "max=1;ttl=60")
	if got := len(*s.heard.table.Load()); got != 1 {
		t.Errorf("%d words, want the one that applies", got)
	}
}

// The hooks of a client take the methods as they are.
var _ = func(s *Switch) client.Config { return client.Config{Limits: s.Limits, Told: s.Heard} }

// Whatever is heard in whatever order, a client is never looser than its own
// policy, and no older document replaces a younger one.
func TestRandomWords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, err := New(Config{})
		if err != nil {
			t.Fatal(err)
		}
		now, version := epoch, uint64(0)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(-5, 60).Draw(t, "s")) * time.Second)
			if rapid.Bool().Draw(t, "kind") {
				v := rapid.Uint64Range(0, 9).Draw(t, "version")
				format := rapid.SampledFrom([]string{
					`{"version":%d,"max_attempts":10,"total_ms":3600000,"max_wait_ms":1,"budget":{"burst":1000,"per_success":1}}`,
					`{"version":%d,"max_attempts":1,"total_ms":1,"min_wait_ms":3600000}`,
					`{"version":%d,"routes":{"/a":{"max_attempts":10,"min_wait_ms":0}}}`,
				}).Draw(t, "document")
				err := s.apply(fmt.Sprintf(format, v), "", false)
				if (err == nil) != (v >= 1 && v >= version) {
					t.Fatalf("version %d after %d: %v", v, version, err)
				}
				if err == nil {
					version = v
				}
			} else {
				s.HeardAt(now, api, rapid.SampledFrom([]string{
					"max=1;ttl=10", "max=10;min-ms=0;ttl=86400", "min-ms=3600000;ttl=20", "max=1;ttl=0", "nonsense",
				}).Draw(t, "header"))
			}
			for _, path := range []string{"", "/", "/a", "/a/b", "/b"} {
				l := limits(s, now, path)
				if l.MaxAttempts < 1 || l.MaxAttempts > own.MaxAttempts || l.Total < 1 || l.Total > own.Total ||
					l.Cap < own.Cap || l.Floor < 0 || l.Floor > retrypolicy.MaxWait {
					t.Fatalf("%q: %+v", path, l)
				}
			}
			if got := s.StatusAt(now).Version; got != version {
				t.Fatalf("version %d, want %d", got, version)
			}
		}
	})
}

func TestAllocations(t *testing.T) {
	s := newSwitch(t, Config{})
	apply(t, s, `{"version":1,"routes":{"/orders":{"max_attempts":1}}}`)
	const policy = "max=2;min-ms=10;ttl=600"
	s.HeardAt(epoch, api, policy)
	if n := testing.AllocsPerRun(1000, func() { s.LimitsAt(epoch, api, "/orders/7") }); n != 0 {
		t.Errorf("LimitsAt: %v allocations", n)
	}
	if n := testing.AllocsPerRun(1000, func() { s.HeardAt(epoch, api, policy) }); n != 0 {
		t.Errorf("HeardAt: %v allocations", n)
	}
}

func BenchmarkLimits(b *testing.B) {
	s := newSwitch(b, Config{})
	apply(b, s, `{"version":1,"routes":{"/orders":{"max_attempts":1}}}`)
	s.HeardAt(epoch, api, "max=2;min-ms=10;ttl=600")
	b.ReportAllocs()
	for b.Loop() {
		s.LimitsAt(epoch, api, "/orders/7")
	}
}
