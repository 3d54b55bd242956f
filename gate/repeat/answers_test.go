package repeat

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/comporta/comporta"
)

func newShortCircuit(t *testing.T, bytes int) *Detector {
	t.Helper()
	a, err := NewAnswers(bytes)
	if err != nil {
		t.Fatal(err)
	}
	return newDetector(t, Config{Answers: a})
}

// hopeless is a request of a kind that has been seen to fail three times.
func hopeless(method string) *comporta.Request {
	r := get("/orders")
	r.Method = method
	r.Header = http.Header{"Authorization": {"Bearer a"}, "Accept": {"application/json"}}
	if method == http.MethodPost {
		r.BodySize = 12
	}
	r.Sighting = comporta.Sighting{Kind: comporta.KindHopeless, Evidence: comporta.EvidenceBody, Attempts: 4}
	return r
}

const digest = 77

var plain = http.Header{"Content-Type": {"application/problem+json"}}

func TestShortCircuitFromEndToEnd(t *testing.T) {
	d := newShortCircuit(t, 0)
	service := 0
	ask := func(now time.Time) string {
		r := post("/orders")
		d.SeeAt(now, r, digest, false)
		if a, ok := d.AnswerAt(now, r, digest); ok {
			d.ResolveAt(now, r, ended(comporta.ResultRefused, 0))
			return fmt.Sprintf("memory %d %s", a.Status, a.Body)
		}
		service++
		if d.ResolveAt(now, r, answered(422)) {
			d.KeepAt(now, r, digest, 422, plain, []byte("no such size"))
		}
		return "service"
	}
	for second := range 60 {
		got := ask(noon.Add(time.Duration(second) * time.Second))
		want := "memory 422 no such size"
		if second < 3 || (second-2)%10 == 0 { // three to learn, then one in ten seconds to check
			want = "service"
		}
		if got != want {
			t.Errorf("second %d: %s, want %s", second, got, want)
		}
	}
	if service != 3+5 {
		t.Errorf("the service was asked %d times", service)
	}
}

func TestAnswerIsForThisRequestOnly(t *testing.T) {
	changes := map[string]func(r *comporta.Request, d *uint64){
		"client":        func(r *comporta.Request, _ *uint64) { r.Client.Key++ },
		"method":        func(r *comporta.Request, _ *uint64) { r.Method = http.MethodPut },
		"host":          func(r *comporta.Request, _ *uint64) { r.Host = "other" },
		"path":          func(r *comporta.Request, _ *uint64) { r.Path = "/" },
		"query":         func(r *comporta.Request, _ *uint64) { r.Query = "x" },
		"key":           func(r *comporta.Request, _ *uint64) { r.IdempotencyKey = "k" },
		"body":          func(_ *comporta.Request, d *uint64) { *d++ },
		"unknown body":  func(_ *comporta.Request, d *uint64) { *d = 0 },
		"shared client": func(r *comporta.Request, _ *uint64) { r.Client.Shared = true },
		"no client":     func(r *comporta.Request, _ *uint64) { r.Client.Key = 0 },
		"kind":          func(r *comporta.Request, _ *uint64) { r.Sighting.Kind = comporta.KindRetry },
		"evidence":      func(r *comporta.Request, _ *uint64) { r.Sighting.Evidence = comporta.EvidenceShared },
		"two values":    func(r *comporta.Request, _ *uint64) { r.Header["Accept"] = []string{"application/json", "x"} },
	}
	for _, name := range answerHeaders {
		changes[name] = func(r *comporta.Request, _ *uint64) { r.Header.Set(name, "changed") }
	}
	d := newShortCircuit(t, 0)
	d.KeepAt(noon, hopeless(http.MethodPost), digest, 422, plain, []byte("x"))
	if a, ok := d.AnswerAt(noon, hopeless(http.MethodPost), digest); !ok || a.Status != 422 || string(a.Body) != "x" || !a.Whole ||
		a.Type != "application/problem+json" {
		t.Fatalf("the same request: %+v %v", a, ok)
	}
	for name, change := range changes {
		r, dig := hopeless(http.MethodPost), uint64(digest)
		change(r, &dig)
		if _, ok := d.AnswerAt(noon, r, dig); ok {
			t.Errorf("another %s got the answer", name)
		}
	}
}

func TestWhatIsNotKept(t *testing.T) {
	for name, c := range map[string]struct {
		method string
		status int
		header http.Header
		body   int
		found  bool
		whole  bool
	}{
		"422":                   {"POST", 422, plain, 10, true, true},
		"no body":               {"POST", 422, plain, 0, true, true},
		"4 KiB":                 {"POST", 422, plain, MaxAnswerBody, true, true},
		"above 4 KiB":           {"POST", 422, plain, MaxAnswerBody + 1, true, false},
		"no-store":              {"POST", 422, http.Header{"Cache-Control": {"private, No-Store"}}, 10, true, false},
		"endless type":          {"POST", 422, http.Header{"Content-Type": {strings.Repeat("x", 5000)}}, 10, true, false},
		"GET 404":               {"GET", 404, plain, 10, false, false},
		"HEAD 410":              {"HEAD", 410, plain, 0, false, false},
		"POST 404":              {"POST", 404, plain, 10, true, true},
		"GET 400":               {"GET", 400, plain, 10, true, true},
		"200":                   {"POST", 200, plain, 10, false, false},
		"vary by what we name":  {"POST", 422, http.Header{"Vary": {"origin, Accept-Encoding", "cookie"}}, 10, true, true},
		"vary by something":     {"POST", 422, http.Header{"Vary": {"Accept, X-Tenant"}}, 10, false, false},
		"vary by everything":    {"POST", 422, http.Header{"Vary": {"*"}}, 10, false, false},
		"a declared status 409": {"POST", 409, plain, 10, true, true},
	} {
		d := newShortCircuit(t, 0)
		r := hopeless(c.method)
		d.KeepAt(noon, r, digest, c.status, c.header, make([]byte, c.body))
		a, ok := d.AnswerAt(noon, r, digest)
		if ok != c.found || a.Whole != c.whole {
			t.Errorf("%s: found %v, whole %v", name, ok, a.Whole)
		}
		if !a.Whole && a.Body != nil {
			t.Errorf("%s: part of a body", name)
		}
	}
}

func TestAnswerExpires(t *testing.T) {
	for _, c := range []struct {
		at   time.Duration
		want bool
	}{
		{0, true},
		{Recheck - 1, true},
		{Recheck, false}, // passes to the service
		{time.Minute, false},
		{-time.Second, false}, // the clock stepped back: one check too many, never an old answer
		{-time.Hour, false},
	} {
		d := newShortCircuit(t, 0)
		r := hopeless(http.MethodPost)
		d.KeepAt(noon, r, digest, 422, plain, nil)
		if _, ok := d.AnswerAt(noon.Add(c.at), r, digest); ok != c.want {
			t.Errorf("after %v: %v", c.at, ok)
		}
	}
	// While the service does not answer the check, the rest is still served, and
	// no longer than the window.
	d := newShortCircuit(t, 0)
	r := hopeless(http.MethodPost)
	d.KeepAt(noon, r, digest, 422, plain, nil)
	passed := 0
	for second := range 60 {
		if _, ok := d.AnswerAt(noon.Add(time.Duration(second)*time.Second), r, digest); !ok {
			passed++
		}
	}
	if passed != 5 {
		t.Errorf("%d requests passed in a minute", passed)
	}
	if _, ok := d.AnswerAt(noon.Add(time.Minute), r, digest); ok || d.answers.Bytes() != 0 {
		t.Error("the answer outlived the window")
	}
}

func TestAnswersAreBounded(t *testing.T) {
	d := newShortCircuit(t, MinAnswerBytes)
	const n = 500
	for i := range n {
		r := hopeless(http.MethodPost)
		r.Client.Key = uint64(i + 1)
		d.KeepAt(noon, r, digest, 422, plain, make([]byte, 1000))
		d.KeepAt(noon, r, digest, 422, plain, make([]byte, 1000)) // in its own place
		if b := d.answers.Bytes(); b > MinAnswerBytes {
			t.Fatalf("%d bytes", b)
		}
	}
	kept := 0
	for i := range n {
		r := hopeless(http.MethodPost)
		r.Client.Key = uint64(i + 1)
		if _, ok := d.AnswerAt(noon, r, digest); ok {
			kept++
			if i < n/2 {
				t.Errorf("answer %d was kept longer than later ones", i)
			}
		}
	}
	if kept < 30 || uint64(kept)+d.answers.Evictions() != n {
		t.Errorf("%d kept, %d evicted", kept, d.answers.Evictions())
	}
	if _, err := NewAnswers(1); err == nil {
		t.Error("a store of one byte")
	}
}

func TestWithoutShortCircuitNothingIsKept(t *testing.T) {
	d := newDetector(t, Config{})
	r := hopeless(http.MethodPost)
	d.KeepAt(noon, r, digest, 422, plain, nil)
	if _, ok := d.AnswerAt(noon, r, digest); ok {
		t.Error("answered")
	}
}

// FuzzAnswerHeaders feeds an upstream's headers: nothing panics, and Vary with a
// star is never covered.
func FuzzAnswerHeaders(f *testing.F) {
	f.Add("Accept, *", "no-store")
	f.Add(",,", "max-age=1,,")
	f.Fuzz(func(t *testing.T, vary, control string) {
		h := http.Header{"Vary": {vary}, "Cache-Control": {control}}
		covered := coversVary(h)
		for field := range strings.SplitSeq(vary, ",") {
			if covered && strings.TrimSpace(field) == "*" {
				t.Errorf("%q is covered", vary)
			}
		}
		if forbidsStore(h) && !strings.Contains(strings.ToLower(control), "no-store") {
			t.Errorf("%q forbids", control)
		}
	})
}
