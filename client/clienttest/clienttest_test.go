package clienttest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// roundTripper is a client's retrying layer.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// repeat is a retrying layer as it is written in an afternoon: so many attempts,
// a fixed wait, every error is worth another.
func repeat(next http.RoundTripper, attempts int, wait time.Duration, each func(*http.Request)) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		for n := 1; ; n++ {
			r.Body = io.NopCloser(bytes.NewReader(body))
			each(r)
			resp, err := next.RoundTrip(r)
			if n == attempts || r.Context().Err() != nil {
				return resp, err
			}
			if err == nil {
				_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
				_ = resp.Body.Close()
			}
			select {
			case <-time.After(wait):
			case <-r.Context().Done():
			}
		}
	})
}

func unchanged(*http.Request) {}

// verdicts plays all scenarios to a client over a transport of its own.
func verdicts(t *testing.T, limit time.Duration, layers ...func(http.RoundTripper) http.RoundTripper) map[string]Verdict {
	t.Helper()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	for _, layer := range layers {
		client.Transport = layer(client.Transport)
	}
	list, err := Check(t.Context(), client, limit)
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]Verdict{}
	for i, v := range list {
		if v.Scenario.Name != Scenarios()[i].Name {
			t.Errorf("verdict %d is of %q", i, v.Scenario.Name)
		}
		byName[v.Scenario.Name] = v
	}
	return byName
}

func failed(vs map[string]Verdict) []string {
	var names []string
	for name, v := range vs {
		if v.State == Failed {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func TestAClientThatNeverRetriesPasses(t *testing.T) {
	for name, v := range verdicts(t, 500*time.Millisecond) {
		if v.State != Passed || v.Measurement.Calls != 1 || v.Measurement.Connections != 1 {
			t.Errorf("%s: %v, %+v", name, v.State, v)
		}
	}
}

func TestAClientWithoutACeilingFailsEverywhere(t *testing.T) {
	vs := verdicts(t, 500*time.Millisecond, func(next http.RoundTripper) http.RoundTripper {
		return repeat(next, 1000, time.Millisecond, unchanged)
	})
	for name, v := range vs {
		// On a head that never ends it hangs: bad, and no storm.
		if want := name != "slow-headers"; (v.State == Failed) != want {
			t.Errorf("%s: %v after %d calls", name, v.State, v.Measurement.Calls)
		}
	}
	if m := vs["unavailable"].Measurement; m.Calls < 10 || !m.Ended {
		t.Errorf("unavailable: %+v", m)
	}
}

func TestThreeTriesAreTooManyWhereNoneHelps(t *testing.T) {
	vs := verdicts(t, time.Second, func(next http.RoundTripper) http.RoundTripper {
		return repeat(next, 3, 10*time.Millisecond, unchanged)
	})
	if got := strings.Join(failed(vs), " "); got != "beyond-deadline date far-future not-retryable post-without-key" {
		t.Errorf("failed: %s", got)
	}
	if v := vs["unavailable"]; v.Measurement.Calls != 3 || v.Measurement.Connections != 1 || len(v.Notes) > 0 {
		t.Errorf("unavailable: %+v", v)
	}
}

// Three tries on top of three tries are nine calls.
func TestNestedLayersFail(t *testing.T) {
	layer := func(next http.RoundTripper) http.RoundTripper { return repeat(next, 3, time.Millisecond, unchanged) }
	v := verdicts(t, time.Second, func(next http.RoundTripper) http.RoundTripper { return layer(layer(next)) })["nested"]
	if v.State != Failed || v.Measurement.Calls != 9 || !strings.Contains(v.Problems[0], "9 calls, at most 5") {
		t.Errorf("%v: %v", v.Measurement.Calls, v.Problems)
	}
}

func TestKeys(t *testing.T) {
	constant := func(r *http.Request) { r.Header.Set("Idempotency-Key", "k") }
	fresh := func(r *http.Request) { r.Header.Set("Idempotency-Key", fmt.Sprint(rand.Uint64())) }
	for _, c := range []struct {
		name string
		each func(*http.Request)
		want State
	}{
		{"one key", constant, Passed},
		{"a key per attempt", fresh, Failed},
		{"no key", unchanged, Failed},
	} {
		v := verdicts(t, 300*time.Millisecond, func(next http.RoundTripper) http.RoundTripper {
			return repeat(next, 3, time.Millisecond, c.each)
		})["post-without-key"]
		if v.State != c.want {
			t.Errorf("%s: %v, %v", c.name, v.State, v.Problems)
		}
	}
}

func TestAConnectionForEachCallIsNoted(t *testing.T) {
	transport := &http.Transport{DisableKeepAlives: true}
	client := &http.Client{Transport: repeat(transport, 3, time.Millisecond, unchanged)}
	list, err := Check(t.Context(), client, 300*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if v := list[0]; v.Measurement.Connections != 3 || len(v.Notes) != 1 {
		t.Errorf("%+v", v)
	}
}

func TestJudge(t *testing.T) {
	at := time.Date(2026, 3, 10, 14, 0, 0, 0, time.UTC)
	date, post, beyond := scenarios[4], scenarios[6], scenarios[2]
	calls := func(n int) Measurement { return Measurement{Calls: n, calls: make([]call, n)} }
	waited := func(d time.Duration) Measurement {
		return Measurement{Calls: 2, calls: []call{{at: at, notBefore: at.Add(2 * time.Second)}, {at: at.Add(d)}}}
	}
	for _, c := range []struct {
		name string
		s    Scenario
		m    Measurement
		want State
	}{
		{"no call", beyond, calls(0), NotExercised},
		{"one call", beyond, calls(1), Passed},
		{"two calls", beyond, calls(2), Failed},
		{"early", date, waited(1900 * time.Millisecond), Failed},
		{"at the instant", date, waited(2 * time.Second), Passed},
		{"within the clocks", date, waited(1990 * time.Millisecond), Passed},
		{"the method was another", post, Measurement{Calls: 1, calls: []call{{method: "GET"}}}, NotExercised},
		{"more calls than are remembered", post, Measurement{Calls: 200, calls: make([]call, 100)}, Failed},
		{"first without and then with a key", post, Measurement{Calls: 2, calls: []call{{method: "POST"}, {method: "POST", key: "k"}}}, Failed},
	} {
		if v := c.s.Judge(c.m); v.State != c.want {
			t.Errorf("%s: %v, %v", c.name, v.State, v.Problems)
		}
	}
	m := calls(1)
	m.Ended = true
	if v := beyond.Judge(m); v.State != Passed || len(v.Notes) != 1 {
		t.Errorf("who waits out the limit: %+v", v)
	}
	if s := fmt.Sprint(NotExercised, Passed, Failed, State(9)); s != "not exercised passed failed state(9)" {
		t.Error(s)
	}
}

func TestTheServersSideOfTheDate(t *testing.T) {
	server := serve(t, "date")
	resp, err := http.Get(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	sent, err1 := http.ParseTime(resp.Header.Get("Date"))
	until, err2 := http.ParseTime(resp.Header.Get("Retry-After"))
	if err1 != nil || err2 != nil || until.Sub(sent) != 2*time.Second {
		t.Errorf("%v from %v to %v", until.Sub(sent), sent, until)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestAClientThatDropsThePath(t *testing.T) {
	server := serve(t, "unavailable")
	resp, err := http.Get(strings.TrimSuffix(server.URL(), "/unavailable") + "/orders")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	if m := server.Measure(); m.Calls != 0 || m.Stray != "/orders" || resp.StatusCode != 404 || !strings.Contains(string(text), server.URL()) {
		t.Errorf("%d %s %+v", resp.StatusCode, text, m)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestAScenarioOfOnesOwn(t *testing.T) {
	if _, err := Start(Scenario{Name: "mine"}); err == nil {
		t.Error("a scenario without an answer was started")
	}
}

// Scenarios are the storm table of the issue; each says what it is.
func TestScenariosAreComplete(t *testing.T) {
	names := map[string]bool{}
	for _, s := range Scenarios() {
		if names[s.Name] || s.Name == "" || s.Story == "" || s.Good == "" || s.Calls < 1 || s.Calls > Ceiling {
			t.Errorf("%+v", s)
		}
		names[s.Name] = true
	}
	if len(names) != 10 {
		t.Errorf("%d scenarios; a run of 4 s each must stay within 45 s", len(names))
	}
}

// recorder is a T that remembers.
type recorder struct {
	ctx    context.Context
	errors []string
}

func (*recorder) Helper()                    {}
func (r *recorder) Context() context.Context { return r.ctx }
func (*recorder) Logf(string, ...any)        {}
func (r *recorder) Errorf(f string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(f, args...))
}

func TestRun(t *testing.T) {
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := func(next http.RoundTripper) *http.Client { return &http.Client{Transport: next} }
	silent := roundTripper(func(*http.Request) (*http.Response, error) { return nil, io.EOF })
	if got := run(t, client(silent)); len(got) != 1 || !strings.Contains(got[0], "no call in any") {
		t.Errorf("a client that calls nobody: %v", got)
	}
	if got := run(t, client(repeat(transport, 50, time.Millisecond, unchanged))); len(got) < 9 {
		t.Errorf("a bad client: %v", got)
	}
	if got := run(t, client(transport)); len(got) > 0 {
		t.Errorf("a good client: %v", got)
	}
}

// run runs the kit with less time than its limit and returns the errors.
func run(t *testing.T, c *http.Client) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	r := recorder{ctx: ctx}
	Run(&r, c)
	return r.errors
}

func serve(t *testing.T, name string) *Server {
	t.Helper()
	i := slices.IndexFunc(scenarios, func(s Scenario) bool { return s.Name == name })
	server, err := Start(scenarios[i])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server
}
