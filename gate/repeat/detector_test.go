package repeat

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/comporta/comporta"
)

// TestKinds is the design's table of sightings, row by row: a first request,
// what became of it, and the kind of the next one.
func TestKinds(t *testing.T) {
	const pending, body = comporta.ResultPending, 99
	long, short := 3*time.Second, 300*time.Millisecond
	for _, c := range []struct {
		name    string
		method  string
		first   comporta.Outcome
		after   time.Duration
		outcome comporta.Kind // in ModeOutcome
		anyKind comporta.Kind // in ModeAny
	}{
		{"200", "GET", answered(200), 0, comporta.KindPoll, comporta.KindRetry},
		{"200 to a write", "POST", answered(201), 0, comporta.KindPoll, comporta.KindRetry},
		{"302", "GET", answered(302), 0, comporta.KindPoll, comporta.KindRetry},
		{"304", "GET", answered(304), 0, comporta.KindPoll, comporta.KindRetry},
		{"safe twin in flight", "GET", ended(pending, 0), 0, comporta.KindPoll, comporta.KindRetry},
		{"head twin in flight", "HEAD", ended(pending, 0), 0, comporta.KindPoll, comporta.KindRetry},
		{"unsafe twin in flight", "POST", ended(pending, 0), 0, comporta.KindRetry, comporta.KindRetry},
		{"idempotent twin in flight", "PUT", ended(pending, 0), 0, comporta.KindRetry, comporta.KindRetry},
		{"500", "GET", answered(500), 0, comporta.KindRetry, comporta.KindRetry},
		{"503", "POST", answered(503), 0, comporta.KindRetry, comporta.KindRetry},
		{"429", "GET", answered(429), 0, comporta.KindRetry, comporta.KindRetry},
		{"422 once", "POST", answered(422), 0, comporta.KindRetry, comporta.KindRetry},
		{"refused", "GET", ended(comporta.ResultRefused, 0), 0, comporta.KindRetry, comporta.KindRetry},
		{"timeout", "GET", ended(comporta.ResultTimeout, long), 0, comporta.KindRetry, comporta.KindRetry},
		{"unreachable", "GET", ended(comporta.ResultUnreachable, 0), 0, comporta.KindRetry, comporta.KindRetry},
		{"abandoned late", "GET", ended(comporta.ResultAbandoned, long), 0, comporta.KindRetry, comporta.KindRetry},
		{"abandoned at a second", "GET", ended(comporta.ResultAbandoned, time.Second), 0, comporta.KindPoll, comporta.KindRetry},
		{"abandoned soon", "GET", ended(comporta.ResultAbandoned, short), 0, comporta.KindPoll, comporta.KindRetry},
		{"write abandoned soon", "POST", ended(comporta.ResultAbandoned, short), 0, comporta.KindRetry, comporta.KindRetry},
		{"succeeded, last tick of the window", "GET", answered(200), time.Minute - tickLength, comporta.KindPoll, comporta.KindRetry},
		{"succeeded, out of the window", "GET", answered(200), time.Minute, comporta.KindOriginal, comporta.KindOriginal},
		{"422, out of the window", "GET", answered(422), time.Minute, comporta.KindOriginal, comporta.KindOriginal},
		{"abandoned soon, out of the window", "GET", ended(comporta.ResultAbandoned, short), time.Minute, comporta.KindOriginal, comporta.KindOriginal},
		{"failed, last tick of the window", "GET", answered(500), time.Minute - tickLength, comporta.KindRetry, comporta.KindRetry},
		{"failed, last tick of its own window", "GET", answered(500), 30*time.Minute - tickLength, comporta.KindRetry, comporta.KindOriginal},
		{"failed, out of its own window", "GET", answered(500), 30 * time.Minute, comporta.KindOriginal, comporta.KindOriginal},
		{"refused half an hour ago", "POST", ended(comporta.ResultRefused, 0), 29 * time.Minute, comporta.KindRetry, comporta.KindOriginal},
		{"timeout half an hour ago", "GET", ended(comporta.ResultTimeout, long), 29 * time.Minute, comporta.KindRetry, comporta.KindOriginal},
	} {
		t.Run(c.name, func(t *testing.T) {
			for mode, want := range map[Mode]comporta.Kind{ModeOutcome: c.outcome, ModeAny: c.anyKind} {
				d := newDetector(t, Config{Mode: mode})
				r := post("/orders")
				r.Method = c.method
				run(d, noon, r, body, c.first)
				if r.Sighting.Kind != comporta.KindOriginal || r.Sighting.Attempts != 1 {
					t.Fatalf("first sighting: %+v", r.Sighting)
				}
				if got := kindAt(d, noon.Add(c.after), r, body); got != want {
					t.Errorf("mode %v: %v, want %v", mode, got, want)
				}
			}
		})
	}
}

func TestPollIsExact(t *testing.T) {
	// A client that got its 200 and asks again at once is a poll, whatever its
	// earlier tries came to, and whenever that became known.
	d := newDetector(t, Config{})
	first, second := get("/a"), get("/a")
	d.SeeAt(noon, first, 0, false)
	d.SeeAt(noon.Add(5*time.Second), second, 0, false)
	d.ResolveAt(noon.Add(6*time.Second), second, answered(200))
	d.ResolveAt(noon.Add(7*time.Second), first, ended(comporta.ResultAbandoned, 7*time.Second))
	if k := kindAt(d, noon.Add(7*time.Second), first, 0); k != comporta.KindPoll {
		t.Errorf("%v after a success that an older try's end came to late for", k)
	}

	d = newDetector(t, Config{})
	r := keyed(post("/b"), "k")
	for range 300 { // beyond what the counter of attempts can hold
		run(d, noon, again(r), 0, answered(500))
	}
	run(d, noon, again(r), 0, answered(200))
	if k := kindAt(d, noon, r, 0); k != comporta.KindPoll {
		t.Errorf("%v after 300 failures and a success", k)
	}
}

func TestOutcomeIsCorrected(t *testing.T) {
	d := newDetector(t, Config{})
	r := get("/report")
	d.SeeAt(noon, r, 0, false)
	d.ResolveAt(noon, r, answered(200)) // the head was good
	d.ResolveAt(noon.Add(4*time.Second), r, ended(comporta.ResultUnreachable, 4*time.Second))
	if k := kindAt(d, noon.Add(5*time.Second), r, 0); k != comporta.KindRetry {
		t.Errorf("%v after an answer that was cut off", k)
	}

	d = newDetector(t, Config{})
	r = get("/report")
	d.SeeAt(noon, r, 0, false)
	for range 5 {
		d.ResolveAt(noon, r, answered(422)) // told again and again: one answer
	}
	if k := kindAt(d, noon, r, 0); k != comporta.KindRetry {
		t.Errorf("%v: one answer was counted several times", k)
	}
}

func TestLeavingTwiceIsAShortTimeout(t *testing.T) {
	d := newDetector(t, Config{})
	left := ended(comporta.ResultAbandoned, 200*time.Millisecond)
	r := get("/search")
	run(d, noon, r, 0, left)
	d.ResolveAt(noon, r, left) // told twice is left once
	if r = again(r); kindAt(d, noon, r, 0) != comporta.KindPoll {
		t.Error("the first departure was held against the client")
	}
	run(d, noon, r, 0, left)
	if k := kindAt(d, noon, r, 0); k != comporta.KindRetry {
		t.Errorf("%v after two departures", k)
	}
}

func TestWindowCountsFromTheOutcome(t *testing.T) {
	d := newDetector(t, Config{})
	r := get("/slow")
	d.SeeAt(noon, r, 0, false)
	d.ResolveAt(noon.Add(70*time.Second), r, ended(comporta.ResultTimeout, 70*time.Second))
	if k := kindAt(d, noon.Add(71*time.Second), r, 0); k != comporta.KindRetry {
		t.Errorf("%v one second after the client learned of the failure", k)
	}
}

func TestEvidence(t *testing.T) {
	failed := answered(500)
	for _, c := range []struct {
		name     string
		change   func(r *comporta.Request)
		first    *comporta.Outcome
		ticketed bool
		kind     comporta.Kind
		evidence comporta.Evidence
		accuse   bool
	}{
		{"nothing", nil, nil, false, comporta.KindOriginal, comporta.EvidenceNone, false},
		{"fingerprint", nil, &failed, false, comporta.KindRetry, comporta.EvidenceBody, true},
		{"fingerprint, shared", func(r *comporta.Request) { r.Client.Shared = true }, &failed, false, comporta.KindRetry, comporta.EvidenceShared, false},
		{"fingerprint, nobody", func(r *comporta.Request) { r.Client.Key = 0 }, &failed, false, comporta.KindRetry, comporta.EvidenceShared, false},
		{"key", func(r *comporta.Request) { r.IdempotencyKey = "k" }, &failed, false, comporta.KindRetry, comporta.EvidenceKey, true},
		{"key, shared", func(r *comporta.Request) { r.IdempotencyKey, r.Client.Shared = "k", true }, &failed, false, comporta.KindRetry, comporta.EvidenceKey, true},
		{"declared", func(r *comporta.Request) { r.Attempt = 2 }, nil, false, comporta.KindRetry, comporta.EvidenceDeclared, true},
		{"declared, shared", func(r *comporta.Request) { r.Attempt, r.Client.Shared = 2, true }, &failed, false, comporta.KindRetry, comporta.EvidenceDeclared, true},
		{"declared and key", func(r *comporta.Request) { r.Attempt, r.IdempotencyKey = 2, "k" }, &failed, false, comporta.KindRetry, comporta.EvidenceKey, true},
		{"ticket", nil, nil, true, comporta.KindRetry, comporta.EvidenceTicket, true},
		{"ticket beats all", func(r *comporta.Request) { r.Attempt, r.IdempotencyKey = 2, "k" }, &failed, true, comporta.KindRetry, comporta.EvidenceTicket, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDetector(t, Config{})
			r := get("/x")
			if c.change != nil {
				c.change(r)
			}
			if c.first != nil {
				run(d, noon, again(r), 0, *c.first)
			}
			d.SeeAt(noon, r, 0, c.ticketed)
			if s := r.Sighting; s.Kind != c.kind || s.Evidence != c.evidence {
				t.Errorf("%v by %v, want %v by %v", s.Kind, s.Evidence, c.kind, c.evidence)
			}
			if Accusable(r) != c.accuse {
				t.Errorf("accusable: %v", !c.accuse)
			}
		})
	}
}

func TestDeclarationCanOnlyDemote(t *testing.T) {
	d := newDetector(t, Config{})
	r := keyed(post("/x"), "k")
	run(d, noon, r, 0, answered(200))
	r = again(r)
	r.Attempt = 1
	d.SeeAt(noon, r, 0, false)
	// The key says that it succeeded; only the declaration makes it a retry.
	if s := r.Sighting; s.Kind != comporta.KindRetry || s.Evidence != comporta.EvidenceDeclared {
		t.Errorf("a declared poll: %+v", s)
	}
	run(d, noon, again(r), 0, answered(500))
	r = again(r)
	r.Attempt = 0
	if k := kindAt(d, noon, r, 0); k != comporta.KindRetry {
		t.Errorf("declaring a first attempt made it %v", k)
	}
}

func TestFingerprintParts(t *testing.T) {
	base := func() *comporta.Request {
		r := post("/orders")
		r.Query = "a=1"
		return r
	}
	for name, change := range map[string]func(r *comporta.Request, digest *uint64){
		"client":         func(r *comporta.Request, _ *uint64) { r.Client.Key++ },
		"method":         func(r *comporta.Request, _ *uint64) { r.Method = "PUT" },
		"host":           func(r *comporta.Request, _ *uint64) { r.Host = "other" },
		"path":           func(r *comporta.Request, _ *uint64) { r.Path = "/orders/" },
		"query":          func(r *comporta.Request, _ *uint64) { r.Query = "a=2" },
		"body":           func(_ *comporta.Request, d *uint64) { *d++ },
		"no body":        func(r *comporta.Request, _ *uint64) { r.BodySize = 0 },
		"key":            func(r *comporta.Request, _ *uint64) { r.IdempotencyKey = "k" },
		"key like query": func(r *comporta.Request, _ *uint64) { r.IdempotencyKey = "a=1" },
		"parts moved":    func(r *comporta.Request, _ *uint64) { r.Host, r.Path = "api.example/orders", "" },
	} {
		d := newDetector(t, Config{})
		run(d, noon, base(), 5, answered(500))
		r, digest := base(), uint64(5)
		change(r, &digest)
		d.SeeAt(noon, r, digest, false)
		if r.Sighting.Kind != comporta.KindOriginal {
			t.Errorf("another %s: %v", name, r.Sighting.Kind)
		}
	}
	// With a key, neither query nor body makes another operation.
	d := newDetector(t, Config{})
	run(d, noon, keyed(base(), "k"), 5, answered(500))
	r := keyed(base(), "k")
	r.Query = "a=2"
	d.SeeAt(noon, r, 6, false)
	if r.Sighting.Kind != comporta.KindRetry {
		t.Errorf("same key, other query and body: %v", r.Sighting.Kind)
	}
}

func TestUnknownBodyIsFiledLate(t *testing.T) {
	d := newDetector(t, Config{})
	first := post("/orders")
	d.SeeAt(noon, first, 0, false)
	if s := first.Sighting; s.Ref != 0 || s.Kind != comporta.KindOriginal || s.Attempts != 1 {
		t.Fatalf("by its head alone: %+v", s)
	}
	if d.ResolveAt(noon, first, answered(500)) {
		t.Error("a sighting that was never filed is hopeless")
	}
	d.FileAt(noon, first, 42) // the body ended after the answer
	d.ResolveAt(noon, first, answered(500))

	second := post("/orders")
	second.Attempt = 1
	d.SeeAt(noon, second, 0, true)
	d.FileAt(noon, second, 42)
	if s := second.Sighting; s.Kind != comporta.KindRetry || s.Evidence != comporta.EvidenceTicket || s.Attempts != 2 {
		t.Errorf("filed late: %+v", s)
	}
	was := second.Sighting
	d.FileAt(noon, second, 42)
	d.SeeAt(noon, second, 42, false)
	if second.Sighting != was {
		t.Error("filed twice")
	}
}

func TestWantsBody(t *testing.T) {
	d := newDetector(t, Config{BodyLimit: 100})
	with := func(change func(r *comporta.Request)) *comporta.Request {
		r := post("/x")
		r.Body = noBody{}
		change(r)
		return r
	}
	for name, c := range map[string]struct {
		r       *comporta.Request
		pressed bool
		want    bool
	}{
		"under pressure": {with(func(*comporta.Request) {}), true, true},
		"at rest":        {with(func(*comporta.Request) {}), false, false},
		"shared":         {with(func(r *comporta.Request) { r.Client.Shared = true }), true, false},
		"keyed":          {with(func(r *comporta.Request) { r.IdempotencyKey = "k" }), true, false},
		"large":          {with(func(r *comporta.Request) { r.BodySize = 101 }), true, false},
		"unknown size":   {with(func(r *comporta.Request) { r.BodySize = -1 }), true, false},
		"none":           {with(func(r *comporta.Request) { r.BodySize = 0 }), true, false},
		"no digester":    {with(func(r *comporta.Request) { r.Body = nil }), true, false},
	} {
		if got := d.WantsBody(c.r, c.pressed); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

type noBody struct{}

func (noBody) DigestBody() (uint64, bool) { return 0, false }

func TestNewReportsEveryProblem(t *testing.T) {
	_, err := New(Config{Window: time.Millisecond, FailedWindow: 2 * time.Hour, Mode: 9, HopelessAfter: 8, BodyLimit: -1}, nil)
	if err == nil {
		t.Fatal("accepted")
	}
	for _, field := range []string{"NewTable", "window: 1ms", "failed_window: 2h", "mode", "hopeless.after", "body_limit"} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("%q is not named in:\n%v", field, err)
		}
	}
	for _, bytes := range []int{1, MinBytes - 1, MaxBytes + 1, -1} {
		if _, err := NewTable(bytes); err == nil {
			t.Errorf("a table of %d bytes", bytes)
		}
	}
}

func TestNoAllocations(t *testing.T) {
	d := newDetector(t, Config{})
	r := keyed(post("/orders"), "3b2a")
	plain := get("/orders")
	fault, ok := answered(http.StatusInternalServerError), answered(http.StatusOK)
	n := testing.AllocsPerRun(1000, func() {
		r.Sighting, plain.Sighting = comporta.Sighting{}, comporta.Sighting{}
		d.SeeAt(noon, r, 0, false)
		d.SeeAt(noon, plain, 0, false)
		d.ResolveAt(noon, r, fault)
		d.ResolveAt(noon, plain, ok)
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
