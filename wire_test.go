package comporta

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestParseAttempt(t *testing.T) {
	for _, tc := range []struct {
		value string
		base  int
		want  int
	}{
		{"0", 0, 0},
		{"3", 0, 3},
		{" 3 ", 0, 3},
		{"1", 1, 0},
		{"4", 1, 3},
		{"attempt=1; max=3", 1, 0},
		{"ttl=20200101T000000Z; attempt=2; max=3", 1, 1},
		{"max=3", 1, 0},
		{"attempt=; max=3", 1, 0},
		{"-1", 0, 0},
		{"+1", 0, 0},
		{"1.5", 0, 0},
		{"0x10", 0, 0},
		{"", 0, 0},
		{"٣", 0, 0}, // digits of another script are garbage
		{"99999999999999999999999999", 0, 1_000_000},
	} {
		if got := ParseAttempt(tc.value, tc.base); got != tc.want {
			t.Errorf("ParseAttempt(%q, %d) = %d, want %d", tc.value, tc.base, got, tc.want)
		}
	}
}

func TestParseKey(t *testing.T) {
	for _, tc := range []struct {
		value, want string
		ok          bool
	}{
		{`"k-1"`, "k-1", true},
		{`k-1`, "k-1", true}, // one and the same key
		{` "k-1" `, "k-1", true},
		{strings.Repeat("k", 255), strings.Repeat("k", 255), true},
		{strings.Repeat("k", 256), "", false},
		{`""`, "", false},
		{``, "", false},
		{`"a`, "", false},
		{`"a\"b"`, "", false},
		{`a b`, "", false},
		{"a\x7f", "", false},
		{"chávê", "", false},
	} {
		got, ok := ParseKey(tc.value)
		if got != tc.want || ok != tc.ok {
			t.Errorf("ParseKey(%q) = %q, %v; want %q, %v", tc.value, got, ok, tc.want, tc.ok)
		}
	}
}

func TestPatience(t *testing.T) {
	for _, tc := range []struct {
		name, value string
		want        time.Duration
	}{
		{HeaderRequestTimeoutMs, "1500", 1500 * time.Millisecond},
		{HeaderRequestTimeoutMs, "0", 1}, // spent is not unknown
		{HeaderRequestTimeoutMs, "99999999999999999999", maxPatience},
		{HeaderRequestTimeoutMs, "-5", 0},
		{HeaderRequestTimeoutMs, "1e3", 0},
		{"Grpc-Timeout", "2S", 2 * time.Second},
		{"Grpc-Timeout", "250m", 250 * time.Millisecond},
		{"Grpc-Timeout", "99999999H", maxPatience},
		{"Grpc-Timeout", "999999999S", 0}, // nine digits are one too many
		{"Grpc-Timeout", "S", 0},
		{"Grpc-Timeout", "5", 0},
		{"X-Envoy-Expected-Rq-Timeout-Ms", "20", 20 * time.Millisecond},
	} {
		var r Request
		Signals{}.Read(http.Header{tc.name: {tc.value}}, &r)
		if r.Patience != tc.want {
			t.Errorf("%s: %q gives %v, want %v", tc.name, tc.value, r.Patience, tc.want)
		}
	}
}

func TestSignalsFirstFoundWins(t *testing.T) {
	var r Request
	Signals{}.Read(http.Header{
		"X-Envoy-Attempt-Count": {"7"}, "X-Tentativa": {"2"},
		"Idempotency-Key": {`"abc"`}, "Client-Version": {"acme-go/2.1.0-rc.1"}, "Retry-Ticket": {"v1.x"},
	}, &r)
	want := Request{Attempt: 2, IdempotencyKey: "abc", Ticket: "v1.x", Version: ClientVersion{Name: "acme-go", Major: 2, Minor: 1, Pre: "rc.1"}}
	if r.Attempt != want.Attempt || r.IdempotencyKey != want.IdempotencyKey || r.Ticket != want.Ticket || r.Version != want.Version {
		t.Errorf("got %+v, want %+v", r, want)
	}
	r.Reset()
	Signals{Attempt: []AttemptHeader{{"X-Try", 1}}}.Read(http.Header{"X-Tentativa": {"2"}, "X-Try": {"2"}}, &r)
	if r.Attempt != 1 {
		t.Errorf("configured list: attempt %d, want 1", r.Attempt)
	}
}

func TestTwoKeysAreNoKey(t *testing.T) {
	var r Request
	Signals{}.Read(http.Header{"Idempotency-Key": {"a", "b"}}, &r)
	if r.IdempotencyKey != "" || !r.InvalidKey {
		t.Errorf("key %q, invalid %v: two keys name no operation", r.IdempotencyKey, r.InvalidKey)
	}
}

func TestVersionsCompareAsSemver(t *testing.T) {
	ordered := []string{
		"0.9.0", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11",
		"1.0.0-rc.1", "1.0.0", "1.0.1", "1.2", "2",
	}
	for i, a := range ordered {
		for j, b := range ordered {
			va, okA := ParseVersion(a)
			vb, okB := ParseVersion(b)
			if !okA || !okB {
				t.Fatalf("cannot read %q or %q", a, b)
			}
			if got, want := va.Compare(vb), min(max(i-j, -1), 1); got != want {
				t.Errorf("%s against %s: %d, want %d", a, b, got, want)
			}
		}
	}
	for _, bad := range []string{"", "a", "1.2.3.4", "1..2", "1.2.3-", "-1", "99999999999"} {
		if v, ok := ParseVersion(bad); ok {
			t.Errorf("ParseVersion(%q) = %+v, want refusal", bad, v)
		}
	}
}

func TestReasonsAreComplete(t *testing.T) {
	seen := map[string]bool{}
	for r := ReasonNone + 1; r < NumReasons; r++ {
		info := r.Info()
		if info.Code == "" || info.Title == "" || info.Meaning == "" || info.Status < 400 || seen[info.Code] {
			t.Errorf("reason %d is incomplete or named twice: %+v", r, info)
		}
		seen[info.Code] = true
		if info.Slotted && (!info.Retryable || info.Status < 502) {
			t.Errorf("%s asks for an instant and is no retryable failure of capacity", info.Code)
		}
		if back, ok := ReasonByCode(info.Code); !ok || back != r {
			t.Errorf("ReasonByCode(%q) = %v, %v", info.Code, back, ok)
		}
	}
	if Reason(200).String() != "none" {
		t.Error("an unknown reason must not panic")
	}
}

func TestResultOf(t *testing.T) {
	for status, want := range map[int]Result{
		101: ResultSuccess, 200: ResultSuccess, 304: ResultSuccess, 400: ResultDeterministic, 401: ResultFailed,
		404: ResultDeterministic, 409: ResultFailed, 422: ResultDeterministic, 429: ResultFailed, 500: ResultFailed,
		501: ResultDeterministic, 503: ResultFailed, 0: ResultFailed,
	} {
		if got := ResultOf(status); got != want {
			t.Errorf("ResultOf(%d) = %v, want %v", status, got, want)
		}
	}
}

// FuzzSignals feeds every parser of the contract's signals. Whatever arrives,
// nothing panics and what is read stays within its bounds.
func FuzzSignals(f *testing.F) {
	f.Add("3", `"key"`, "1500", "2S", "acme/1.2.3-rc.1+b", "v1.abc")
	f.Add("attempt=2; max=3", "a\x00b", "-1", "99999999H", "a/b/c", strings.Repeat("x", 300))
	f.Fuzz(func(t *testing.T, attempt, key, ms, grpc, version, ticket string) {
		var r Request
		Signals{}.Read(http.Header{
			"Amz-Sdk-Request": {attempt}, "Idempotency-Key": {key}, "Request-Timeout-Ms": {ms},
			"Grpc-Timeout": {grpc}, "Client-Version": {version}, "Retry-Ticket": {ticket},
		}, &r)
		if r.Attempt < 0 || r.Attempt > 1_000_000 {
			t.Errorf("attempt %d out of range", r.Attempt)
		}
		if r.Patience < 0 || r.Patience > maxPatience {
			t.Errorf("patience %v out of range", r.Patience)
		}
		if len(r.IdempotencyKey) > MaxKeyLength || (r.IdempotencyKey == "") != r.InvalidKey {
			t.Errorf("key %q, invalid %v", r.IdempotencyKey, r.InvalidKey)
		}
		if again, ok := ParseKey(r.IdempotencyKey); r.IdempotencyKey != "" && (!ok || again != r.IdempotencyKey) {
			t.Errorf("key %q does not read back: %q", r.IdempotencyKey, again)
		}
		if r.InvalidKey != (KeyFault([]string{key}) != DetailNone) {
			t.Errorf("key %q: invalid %v, fault %v", key, r.InvalidKey, KeyFault([]string{key}))
		}
		if len(r.Ticket) > maxTicketLength || len(r.Version.Name) > 64 {
			t.Errorf("ticket or version beyond its length")
		}
		if r.Version.Compare(r.Version) != 0 {
			t.Errorf("version %+v differs from itself", r.Version)
		}
	})
}

func BenchmarkSignals(b *testing.B) {
	h := http.Header{
		"Accept": {"*/*"}, "User-Agent": {"acme"}, "X-Api-Key": {"secret"}, "Content-Type": {"application/json"},
		"Accept-Encoding": {"gzip"}, "Retry-Attempt": {"1"}, "Idempotency-Key": {"abc"}, "Content-Length": {"10"},
	}
	var r Request
	b.ReportAllocs()
	for b.Loop() {
		Signals{}.Read(h, &r)
	}
}

// The order of the list decides, not that of the header, which is a map's.
func TestSignalsDoNotFollowTheWalk(t *testing.T) {
	h := http.Header{
		"Request-Timeout-Ms": {"100"}, "Grpc-Timeout": {"2S"}, "X-Envoy-Expected-Rq-Timeout-Ms": {"300"},
		"Retry-Attempt": {"1"}, "X-Tentativa": {"2"}, "X-Envoy-Attempt-Count": {"9"},
	}
	for range 100 {
		var r Request
		Signals{}.Read(h, &r)
		if r.Patience != 100*time.Millisecond || r.Attempt != 1 {
			t.Fatalf("patience %v, attempt %d", r.Patience, r.Attempt)
		}
	}
	h["Request-Timeout-Ms"] = []string{"soon"} // garbage counts as absent
	for range 100 {
		var r Request
		Signals{}.Read(h, &r)
		if r.Patience != 2*time.Second {
			t.Fatalf("patience %v", r.Patience)
		}
	}
}

// The switch of Field and the list say the same.
func TestDefaultAttemptHeadersAreTheSwitch(t *testing.T) {
	for i, a := range DefaultAttemptHeaders {
		var r Request
		Signals{}.Read(http.Header{a.Name: {"5"}}, &r)
		if r.Attempt != 5-a.Base {
			t.Errorf("%s: attempt %d, want %d", a.Name, r.Attempt, 5-a.Base)
		}
		for _, later := range DefaultAttemptHeaders[i+1:] {
			r = Request{}
			Signals{}.Read(http.Header{a.Name: {"5"}, later.Name: {"9"}}, &r)
			if r.Attempt != 5-a.Base {
				t.Errorf("%s beside %s: attempt %d", a.Name, later.Name, r.Attempt)
			}
		}
	}
}
