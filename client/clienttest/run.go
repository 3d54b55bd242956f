package clienttest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Limit is how long [Run] lets a client try.
const Limit = 4 * time.Second

// T is what Run needs of a *testing.T.
type T interface {
	Helper()
	Context() context.Context
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
}

// Run plays all scenarios to the client, side by side, and fails the test for
// each in which it insists too much. Each operation has a deadline of [Limit],
// and so takes Run. The POST has no key; a client that mints one may repeat it.
// The scenarios are different destinations: a breaker that one of them opens
// does not shield the others.
func Run(t T, client *http.Client) {
	t.Helper()
	verdicts, err := Check(t.Context(), client, Limit)
	if err != nil {
		t.Errorf("%v", err)
		return
	}
	silent := true
	for _, v := range verdicts {
		m := &v.Measurement
		silent = silent && m.Calls == 0
		t.Logf("%-16s %d calls (at most %d), %d connections, %v: %v",
			v.Scenario.Name, m.Calls, v.Scenario.Calls, m.Connections, m.Elapsed.Round(time.Millisecond), v.State)
		for _, p := range v.Problems {
			t.Errorf("%s (%s): %s. A good client: %s", v.Scenario.Name, v.Scenario.Story, p, v.Scenario.Good)
		}
		for _, n := range v.Notes {
			t.Logf("%s: %s", v.Scenario.Name, n)
		}
	}
	if silent {
		t.Errorf("the client made no call in any of %d scenarios", len(verdicts))
	}
}

// Check is [Run] without a test: it returns a verdict per scenario, in the order
// of [Scenarios], or an error if it cannot listen.
func Check(ctx context.Context, client *http.Client, limit time.Duration) ([]Verdict, error) {
	list := Scenarios()
	verdicts := make([]Verdict, len(list))
	failures := make([]error, len(list))
	var wg sync.WaitGroup
	for i, s := range list {
		wg.Go(func() { verdicts[i], failures[i] = check(ctx, client, limit, s) })
	}
	wg.Wait()
	if err := errors.Join(failures...); err != nil {
		return nil, err
	}
	return verdicts, nil
}

func check(ctx context.Context, client *http.Client, limit time.Duration, s Scenario) (Verdict, error) {
	server, err := Start(s)
	if err != nil {
		return Verdict{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began := time.Now()
	err = operate(ctx, client, s, server.URL())
	m := server.Measure()
	m.Elapsed, m.Ended = time.Since(began), ctx.Err() != nil
	return s.Judge(m), errors.Join(err, server.Close())
}

// operate makes the one operation of a run. That it fails is the scenario.
func operate(ctx context.Context, client *http.Client, s Scenario, base string) error {
	method, body := http.MethodGet, io.Reader(http.NoBody)
	if s.Method != "" {
		method, body = s.Method, strings.NewReader(`{"amount":1}`)
	}
	req, err := http.NewRequestWithContext(ctx, method, base+"/orders", body)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil //nolint:nilerr // the client gave up, as it should
	}
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // a caller reads what it is given
	_ = resp.Body.Close()                          // and whether that went well is the scenario too
	return nil
}
