package retry

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/comporta/comporta/client/budget"
)

var testNow = time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)

// fresh is an idempotent operation after its first attempt, with all of its time.
func fresh() Operation {
	return Operation{Deadline: testNow.Add(DefaultTotal), Attempts: 1, Idempotent: true, Replayable: true}
}

func head(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

func bucket(t testing.TB) *budget.Bucket {
	t.Helper()
	b, err := budget.New(budget.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return b.Of("api")
}

// The order of refusal: each row adds what comes before it in the order, and
// must win over all the rows above.
func TestOrderOfRefusal(t *testing.T) {
	empty := bucket(t)
	for empty.Withdraw() {
	}
	o, s := fresh(), Sign{Retryable: true}
	expect := func(want Reason) {
		t.Helper()
		op := o
		if d := (Policy{}).DecideAt(testNow, &op, s, 0.5); d.Reason != want || d.Again != (want == ReasonNone) || (!d.Again && d.Wait != 0) {
			t.Errorf("%+v, want %v", d, want)
		}
	}
	expect(ReasonNone)
	o.Budget = empty
	expect(ReasonBudget)
	o.Blocked = time.Minute
	expect(ReasonBreaker)
	o.Deadline = testNow.Add(50 * time.Millisecond)
	expect(ReasonDeadline)
	s.Wait = time.Hour
	expect(ReasonTooFar)
	o.Attempts = DefaultMaxAttempts
	expect(ReasonAttempts)
	o.Nested = true
	expect(ReasonNested)
	o.Replayable = false
	expect(ReasonNotReplayable)
	o.Idempotent = false
	expect(ReasonNotIdempotent)
	s.Retryable = false
	expect(ReasonPermanent)
	s.Stop = true
	expect(ReasonServer)
	o.Over = true
	expect(ReasonContext)
}

func TestCase_Client_Decisions(t *testing.T) {
	left := func(d time.Duration) func(*Operation) { return func(o *Operation) { o.Deadline = testNow.Add(d) } }
	unsafe := func(o *Operation) { o.Idempotent = false }
	for _, c := range []struct {
		id     string
		with   func(*Operation)
		status int
		header http.Header
		body   string
		keyed  bool
		want   Reason
		least  time.Duration // the wait lies within [least, most]
		most   time.Duration
	}{
		{id: "A1", status: 503, most: 500 * time.Millisecond},
		{id: "A1 third", with: func(o *Operation) { o.Attempts, o.Step = 3, 2 }, status: 503, most: 2 * time.Second},
		{id: "A2", status: 503, header: head("Retry-After", "60"), want: ReasonDeadline},
		{id: "A3", with: left(24 * time.Hour), status: 503, header: head("Retry-After", "3600"), want: ReasonTooFar},
		{id: "A4", with: left(24 * time.Hour), status: 503, header: head("Retry-After", "9223372037"), want: ReasonTooFar},
		{id: "A4 longer", with: left(24 * time.Hour), status: 503, header: head("Retry-After", "99999999999999999999"), want: ReasonTooFar},
		{id: "A6", status: 503, header: head("Retry-After", "0"), most: 500 * time.Millisecond},
		{id: "A8 IMF", status: 503, header: head("Date", "Thu, 01 Jan 1970 00:00:00 GMT", "Retry-After", "Thu, 01 Jan 1970 00:00:02 GMT"), least: 2 * time.Second, most: 2200 * time.Millisecond},
		{id: "A8 RFC 850", status: 503, header: head("Date", "Thu, 01 Jan 2026 00:00:00 GMT", "Retry-After", "Thursday, 01-Jan-26 00:00:02 GMT"), least: 2 * time.Second, most: 2200 * time.Millisecond},
		{id: "A8 asctime", status: 503, header: head("Date", "Thu Jan  1 00:00:00 2026", "Retry-After", "Thu Jan  1 00:00:02 2026"), least: 2 * time.Second, most: 2200 * time.Millisecond},
		{id: "A10", with: left(time.Minute), status: 503, header: head("Retry-After", "30"), least: 30 * time.Second, most: 33 * time.Second},
		{id: "A10 ticket", with: left(time.Minute), status: 503, header: head("Retry-After", "30", "Retry-Ticket", "v1.x"), least: 30 * time.Second, most: 31 * time.Second},
		{id: "A10 less spread than time", with: left(31 * time.Second), status: 503, header: head("Retry-After", "30"), least: 30 * time.Second, most: 30900 * time.Millisecond},
		{id: "A10 no time for spread", with: left(30100 * time.Millisecond), status: 503, header: head("Retry-After", "30"), least: 30 * time.Second, most: 30 * time.Second},
		{id: "A2 a wait that does not fit", with: left(30099 * time.Millisecond), status: 503, header: head("Retry-After", "30"), want: ReasonDeadline},
		{id: "A12", with: left(50 * time.Millisecond), status: 503, want: ReasonDeadline},
		{id: "A16", with: func(o *Operation) { o.Over = true }, status: 503, want: ReasonContext},
		{id: "B1", with: unsafe, status: 503, want: ReasonNotIdempotent},
		{id: "B1 ours", with: unsafe, status: 503, header: head("X-Should-Retry", "true", "Comporta-Decision", "capacity_exhausted"), most: 500 * time.Millisecond},
		{id: "B1 not ours", with: unsafe, status: 503, header: head("X-Should-Retry", "true"), want: ReasonNotIdempotent},
		{id: "B1 replayed", with: unsafe, status: 503, header: head("X-Should-Retry", "true", "Comporta-Decision", "replayed"), want: ReasonNotIdempotent},
		{id: "B4 keyed", status: 409, keyed: true, most: 500 * time.Millisecond},
		{id: "B4 keyed 422", status: 422, keyed: true, want: ReasonPermanent},
		{id: "B4 no key", status: 409, want: ReasonPermanent},
		{id: "B5", status: 500, body: `{"retryable":false}`, want: ReasonServer},
		{id: "B5 repetivel", status: 500, body: `{"erro":"x","repetivel":false}`, want: ReasonServer},
		{id: "B7", status: 503, header: head("Retry-After", "5"), body: `{"retryable":false}`, want: ReasonServer},
		{id: "B7 header before body", status: 503, header: head("X-Should-Retry", "false"), body: `{"retryable":true}`, want: ReasonServer},
		{id: "B8", with: func(o *Operation) { o.Attempts = 4 }, status: 429, body: `{"retryable":true}`, want: ReasonAttempts},
		{id: "word beats status", status: 404, body: `{"retryable":true}`, most: 500 * time.Millisecond},
		{id: "B10 400", status: 400, want: ReasonPermanent},
		{id: "B10 401", status: 401, want: ReasonPermanent},
		{id: "B10 403", status: 403, want: ReasonPermanent},
		{id: "B10 404", status: 404, want: ReasonPermanent},
		{id: "B10 422", status: 422, want: ReasonPermanent},
		{id: "B10 501", status: 501, want: ReasonPermanent},
		{id: "B10 505", status: 505, want: ReasonPermanent},
		{id: "C2", with: func(o *Operation) { o.Replayable = false }, status: 503, want: ReasonNotReplayable},
		{id: "D7", with: func(o *Operation) { o.Nested = true }, status: 503, want: ReasonNested},
		{id: "D14", status: 403, header: head("Comporta-Decision", "client_too_old"), want: ReasonTooOld},
	} {
		o := fresh()
		if c.with != nil {
			c.with(&o)
		}
		if c.header == nil {
			c.header = http.Header{}
		}
		s := OfResponse(testNow, c.status, c.header, []byte(c.body), c.keyed)
		for _, u := range []float64{0, 0.5, 0.999999} {
			op := o
			d := (Policy{}).DecideAt(testNow, &op, s, u)
			if d.Reason != c.want || d.Wait < c.least || d.Wait > c.most {
				t.Errorf("%s: %+v, want %v within [%v, %v]", c.id, d, c.want, c.least, c.most)
			}
			if c.want == ReasonNone && u > 0.9 && d.Wait < (c.least+c.most)/2 {
				t.Errorf("%s: %v is no wait for a draw near 1", c.id, d.Wait)
			}
		}
	}
}

// cases/client.md A2: the instant is told although nobody waits for it.
func TestCase_Client_A2_RetryAt(t *testing.T) {
	o := fresh()
	d := (Policy{}).DecideAt(testNow, &o, OfResponse(testNow, 503, head("Retry-After", "60"), nil, false), 0)
	if want := testNow.Add(time.Minute); !d.RetryAt.Equal(want) {
		t.Errorf("RetryAt %v, want %v", d.RetryAt, want)
	}
}

// cases/client.md A10: a thousand clients that were told the same do not come at
// one instant, and none comes early.
func TestCase_Client_A10_Spread(t *testing.T) {
	seen := map[time.Duration]bool{}
	for i := range 1000 {
		o := fresh()
		o.Deadline = testNow.Add(time.Minute)
		d := (Policy{}).DecideAt(testNow, &o, Sign{Retryable: true, Wait: 30 * time.Second}, float64(i)/1000)
		if d.Wait < 30*time.Second || d.Wait > 33*time.Second {
			t.Fatalf("waits %v", d.Wait)
		}
		seen[d.Wait] = true
	}
	if len(seen) < 990 {
		t.Errorf("%d instants for 1000 clients", len(seen))
	}
}

// cases/client.md A11: no attempt number breaks the arithmetic.
func TestCase_Client_A11_Attempt70(t *testing.T) {
	p := Policy{}.WithDefaults()
	for step, want := range map[int]time.Duration{
		0: 500 * time.Millisecond, 1: time.Second, 3: 4 * time.Second, 4: 8 * time.Second, 5: 8 * time.Second,
		40: 8 * time.Second, 70: 8 * time.Second, 1 << 40: 8 * time.Second, -1: 8 * time.Second,
	} {
		if got := p.ceiling(step); got != want {
			t.Errorf("step %d: %v, want %v", step, got, want)
		}
	}
	wide := Policy{Base: 1, Cap: maxDuration}.WithDefaults()
	for step := range 100 {
		if c := wide.ceiling(step); c <= 0 || c > maxDuration {
			t.Fatalf("step %d: %v", step, c)
		}
	}
}

// cases/client.md B13
func TestCase_Client_B13_Pushback(t *testing.T) {
	for _, values := range [][]string{{"-1"}, {"abc"}, {"250", "250"}} {
		o := fresh()
		o.Budget = bucket(t)
		d := (Policy{}).DecideAt(testNow, &o, OfGRPC(grpcUnavailable, values, ""), 0.5)
		if d.Again || d.Reason != ReasonServer || o.Budget.Level() != budget.DefaultBurst-1 {
			t.Errorf("%q: %+v with %v tokens left", values, d, o.Budget.Level())
		}
	}
	o := fresh()
	o.Step = 2
	for _, u := range []float64{0, 0.99} {
		if d := (Policy{}).DecideAt(testNow, &o, OfGRPC(grpcUnavailable, []string{"250"}, ""), u); !d.Again || d.Wait != 250*time.Millisecond {
			t.Errorf("%+v, want exactly 250 ms", d)
		}
	}
	if o.Step != 0 {
		t.Error("the growth of waits did not begin anew")
	}
	if d := (Policy{}).DecideAt(testNow, &o, OfGRPC(grpcUnavailable, []string{"0"}, ""), 0.99); !d.Again || d.Wait != 0 {
		t.Errorf("%+v, want at once", d)
	}
	for code, want := range map[int]Reason{3: ReasonPermanent, 5: ReasonPermanent, 13: ReasonPermanent, 4: ReasonNone, 8: ReasonNone} {
		o := fresh()
		if d := (Policy{}).DecideAt(testNow, &o, OfGRPC(code, nil, ""), 0); d.Reason != want {
			t.Errorf("code %d: %v, want %v", code, d.Reason, want)
		}
	}
	unsafe := fresh()
	unsafe.Idempotent = false
	if d := (Policy{}).DecideAt(testNow, &unsafe, OfGRPC(grpcUnavailable, []string{"9"}, "capacity_exhausted"), 0); !d.Again || d.Ask {
		t.Errorf("a refusal of the gateway left the service untouched: %+v", d)
	}
}

func TestCheckable(t *testing.T) {
	o := fresh()
	o.Idempotent, o.Checkable = false, true
	if d := (Policy{}).DecideAt(testNow, &o, Sign{Retryable: true}, 0); !d.Again || !d.Ask {
		t.Errorf("%+v, want to ask before the repeat", d)
	}
	if d := (Policy{}).DecideAt(testNow, &o, Sign{Retryable: true, Untouched: true}, 0); !d.Again || d.Ask {
		t.Errorf("%+v, want no question where nothing was done", d)
	}
}

func TestAttemptAt(t *testing.T) {
	for name, c := range map[string]struct {
		left     time.Duration
		attempts int
		nested   bool
		with     func(*Operation)
		want     time.Duration
	}{
		"first":        {left: 20 * time.Second, want: 12 * time.Second},
		"second":       {left: 8 * time.Second, attempts: 1, want: 4800 * time.Millisecond},
		"at least":     {left: 120 * time.Millisecond, attempts: 1, want: 100 * time.Millisecond},
		"no more than": {left: 50 * time.Millisecond, attempts: 1, want: 50 * time.Millisecond},
		"last":         {left: 8 * time.Second, attempts: 3, want: 8 * time.Second},
		"nested":       {left: 8 * time.Second, nested: true, want: 8 * time.Second},
		"passed":       {left: -time.Second, want: 0},
		"a stream":     {left: 8 * time.Second, with: func(o *Operation) { o.Replayable = false }, want: 8 * time.Second},
		"unsafe":       {left: 8 * time.Second, with: func(o *Operation) { o.Idempotent = false }, want: 8 * time.Second},
		"checkable":    {left: 10 * time.Second, with: func(o *Operation) { o.Idempotent, o.Checkable = false, true }, want: 6 * time.Second},
	} {
		o := Operation{Deadline: testNow.Add(c.left), Attempts: c.attempts, Nested: c.nested, Replayable: true, Idempotent: true}
		if c.with != nil {
			c.with(&o)
		}
		if got := (Policy{}).AttemptAt(testNow, &o); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestPolicyNamesEveryProblem(t *testing.T) {
	err := Policy{
		MaxAttempts: -1, Total: time.Second, MinAttempt: 2 * time.Second, Base: time.Minute, Cap: time.Second,
		Floor: -1, RetryAfterMax: 25 * time.Hour,
	}.Check()
	if err == nil {
		t.Fatal("no error")
	}
	for _, field := range []string{"MaxAttempts", "MinAttempt", "Base", "Floor", "RetryAfterMax"} {
		if !strings.Contains(err.Error(), "retry: "+field+":") {
			t.Errorf("%v\ndoes not name %s", err, field)
		}
	}
	if err := (Policy{}).Check(); err != nil {
		t.Errorf("the zero policy: %v", err)
	}
	if err := (Policy{Floor: 20 * time.Second}).Check(); err == nil || !strings.Contains(err.Error(), "Floor:") {
		t.Errorf("a floor that forbids every repeat: %v", err)
	}
}

func TestTightenNeverLoosens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		duration := rapid.Custom(func(t *rapid.T) time.Duration { return time.Duration(rapid.Int64().Draw(t, "d")) })
		p := Policy{MaxAttempts: rapid.IntRange(1, 100).Draw(t, "max"), Floor: time.Duration(rapid.IntRange(0, 1e9).Draw(t, "floor"))}.WithDefaults()
		l := Limits{rapid.Int().Draw(t, "n"), duration.Draw(t, "total"), duration.Draw(t, "min"), duration.Draw(t, "cap")}
		q := p.Tighten(l)
		if q.MaxAttempts > p.MaxAttempts || q.MaxAttempts < 1 || q.Total > p.Total || q.Total <= 0 || q.Floor < p.Floor || q.Cap < p.Cap {
			t.Fatalf("%+v tightened %+v to %+v", l, p, q)
		}
	})
}

// Whatever is said and done: at most MaxAttempts, never early, never past the
// deadline, and never more repeats than the budget holds.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, err := budget.New(budget.Config{Burst: rapid.IntRange(1, 5).Draw(t, "burst")})
		if err != nil {
			t.Fatal(err)
		}
		o := fresh()
		o.Budget, o.Idempotent = b.Of("x"), rapid.Bool().Draw(t, "idempotent")
		now, p := testNow, Policy{MaxAttempts: rapid.IntRange(1, 8).Draw(t, "attempts")}
		for {
			s := Sign{
				Retryable: rapid.Bool().Draw(t, "retryable"), Again: rapid.Bool().Draw(t, "again"), Stop: rapid.Bool().Draw(t, "stop"),
				Untouched: rapid.Bool().Draw(t, "untouched"), Wait: time.Duration(rapid.Int64Range(0, int64(30*time.Second)).Draw(t, "wait")),
				Spread: Spread(rapid.IntRange(0, 2).Draw(t, "spread")),
			}
			had := o.Budget.Level()
			d := p.DecideAt(now, &o, s, rapid.Float64Range(0, 0.999).Draw(t, "u"))
			switch {
			case !d.Again:
				if d.Reason == ReasonNone || d.Wait != 0 || o.Budget.Level() != had {
					t.Fatalf("%+v", d)
				}
				return
			case s.Stop, o.Attempts >= p.MaxAttempts, d.Wait < s.Wait, had < 1, !o.Idempotent && !s.Untouched:
				t.Fatalf("went on after %+v: %+v", s, d)
			}
			now = now.Add(d.Wait)
			if now.After(o.Deadline) {
				t.Fatal("past the deadline")
			}
			now = now.Add(time.Duration(rapid.Float64Range(0, 1).Draw(t, "took") * float64(p.AttemptAt(now, &o))))
			o.Attempts++
		}
	})
}

func TestDecisionAllocates(t *testing.T) {
	h := head("Retry-After", "3", "Retry-Ticket", "v1.x", "Comporta-Decision", "capacity_exhausted", "X-Should-Retry", "true")
	body := []byte(`{"retryable":true}`)
	o := fresh()
	o.Budget = bucket(t)
	n := testing.AllocsPerRun(100, func() {
		(Policy{}).DecideAt(testNow, &o, OfResponse(testNow, 503, h, body, true), 0.5)
	})
	if n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkDecide(b *testing.B) {
	h := head("Retry-After", "3", "Retry-Ticket", "v1.x", "X-Should-Retry", "true")
	b.ReportAllocs()
	for b.Loop() {
		o := fresh()
		(Policy{}).DecideAt(testNow, &o, OfResponse(testNow, 503, h, nil, true), 0.5)
	}
}

// FuzzOfResponse holds for any response: the wait is within its bounds, a stop is
// obeyed, and no more than one draw's spread is added.
func FuzzOfResponse(f *testing.F) {
	f.Add(503, "5", "Thu, 01 Jan 2026 00:00:00 GMT", "500", "true", `{"retryable":false}`, "draining", 0.5)
	f.Add(409, strings.Repeat("9", 40), "x", "-1", "", `{"repetivel":true}`, "", 1.5)
	f.Fuzz(func(t *testing.T, status int, after, date, ms, word, body, decision string, u float64) {
		h := http.Header{
			"Retry-After": {after}, "Date": {date}, "Retry-After-Ms": {ms}, "X-Should-Retry": {word}, "Comporta-Decision": {decision},
		}
		s := OfResponse(testNow, status, h, []byte(body), false)
		o := fresh()
		d := (Policy{}).DecideAt(testNow, &o, s, u)
		if s.Wait < 0 || (s.Stop && d.Again) || (d.Again && (d.Wait < s.Wait || d.Wait > 20*time.Second)) || (s.OK != (status < 400)) {
			t.Fatalf("%+v: %+v", s, d)
		}
	})
}

func TestReasonNames(t *testing.T) {
	seen := map[string]bool{}
	for r := range numReasons {
		if r.String() == "" || seen[r.String()] {
			t.Errorf("reason %d is called %q", r, r)
		}
		seen[r.String()] = true
	}
	if numReasons.String() != "unknown" {
		t.Error("an unknown reason has a name")
	}
}

func TestAsk(t *testing.T) {
	for name, c := range map[string]struct {
		fate Fate
		err  error
		done bool
		want Reason
	}{
		"done":     {fate: FateDone, done: true},
		"not done": {fate: FateNotDone},
		"unknown":  {want: ReasonNotIdempotent},
		"error":    {fate: FateDone, err: ErrNested, want: ReasonNotIdempotent},
		"nonsense": {fate: 9, want: ReasonNotIdempotent},
	} {
		done, reason := Ask(t.Context(), time.Now().Add(time.Minute), func(context.Context) (Fate, error) { return c.fate, c.err })
		if done != c.done || reason != c.want {
			t.Errorf("%s: %t %v", name, done, reason)
		}
	}
	deadline := time.Now().Add(time.Minute)
	_, reason := Ask(t.Context(), deadline, func(ctx context.Context) (Fate, error) {
		if d, ok := ctx.Deadline(); !ok || !d.Equal(deadline) {
			t.Errorf("asked until %v, want %v", d, deadline)
		}
		return FateNotDone, nil
	})
	if reason != ReasonNone {
		t.Error(reason)
	}
	if _, reason := Ask(t.Context(), time.Time{}, nil); reason != ReasonNotIdempotent {
		t.Error("nobody to ask, and still an answer")
	}
}
