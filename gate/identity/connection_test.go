package identity

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/comporta/comporta"
)

func TestDropNominated(t *testing.T) {
	all := []string{
		"X-Api-Key", "Authorization", "Cookie", "X-Request-Id", "Retry-Attempt", "Idempotency-Key", "Client-Version",
		"Content-Type", "Content-Encoding", "X-Forwarded-For", "Forwarded", "X-Real-Ip", "Upgrade", "Te", "Keep-Alive",
	}
	for _, tc := range []struct {
		name       string
		connection []string
		gone       []string // of all
		left       []string // of Connection
	}{
		{"nothing said", nil, nil, nil},
		{"options", []string{"close"}, nil, []string{"close"}},
		{"options in any case, and odd lists", []string{"Keep-Alive, UPGRADE,, te ", "", "http2-settings"}, nil, []string{"Keep-Alive, UPGRADE,, te ", "", "http2-settings"}},
		{"a credential", []string{"X-Api-Key"}, []string{"X-Api-Key"}, nil},
		{"in any case", []string{"x-aPI-kEY"}, []string{"X-Api-Key"}, nil},
		{"among options", []string{"keep-alive, Authorization ,Upgrade"}, []string{"Authorization"}, []string{"keep-alive, Upgrade"}},
		{"over several lines", []string{"Cookie,\tretry-attempt", "close", "X-Request-ID, idempotency-key, client-version"},
			[]string{"Cookie", "Retry-Attempt", "X-Request-Id", "Idempotency-Key", "Client-Version"}, []string{"close"}},
		{"what may not be nominated", []string{"Content-Type, content-encoding, X-Forwarded-For, forwarded, X-Real-IP, Content-Length, Host"}, nil, nil},
		{"what is not there", []string{"close, X-Other, not a name, x\x00y, " + strings.Repeat("z", 300)}, nil, []string{"close"}},
		{"itself", []string{"Connection, X-Api-Key"}, []string{"X-Api-Key"}, []string{"Connection"}},
	} {
		h := headersNamed(all)
		if tc.connection != nil {
			h["Connection"] = slices.Clone(tc.connection)
		}
		DropNominated(h)
		if got := h["Connection"]; !slices.Equal(got, tc.left) {
			t.Errorf("%s: Connection is left %q, want %q", tc.name, got, tc.left)
		}
		for _, name := range all {
			if _, ok := h[name]; ok == slices.Contains(tc.gone, name) {
				t.Errorf("%s: %s is left: %v", tc.name, name, ok)
			}
		}
	}
	DropNominated(nil)
}

// A key that is nominated never reaches the service, so its answer proves
// nothing: the request is its network's.
func TestNominatedKeyIsNotProven(t *testing.T) {
	id := mustNew(t, Config{}, NewProven(0))
	r := request("192.0.2.1", "X-Api-Key", "invented", "Connection", "X-Api-Key")
	DropNominated(r.Header)
	if c := identify(id, r); c.Key != identify(id, request("192.0.2.1")).Key {
		t.Errorf("%+v", c)
	}
	id.ProveAt(noon, r)
	if c := identify(id, request("192.0.2.1", "X-Api-Key", "invented")); c.Class != comporta.ClassAnonymous {
		t.Errorf("the invented key is %v", c.Class)
	}
}

func TestDropNominatedAllocatesNothing(t *testing.T) {
	for _, connection := range []string{"", "close", "keep-alive", "Upgrade", "keep-alive, Upgrade, HTTP2-Settings", "TE"} {
		h := tenHeaders()
		if connection != "" {
			h.Set("Connection", connection)
		}
		if n := testing.AllocsPerRun(100, func() { DropNominated(h) }); n != 0 {
			t.Errorf("%q: %v allocations", connection, n)
		}
	}
}

// FuzzDropNominated: a proxy that then removes what Connection nominates removes
// nothing but what concerns the connection.
func FuzzDropNominated(f *testing.F) {
	f.Add("close", "")
	f.Add("X-Api-Key, close", "te,Content-Type")
	f.Add(" ,,x_api_key", "\x00,ſ,keep-alive;q=1")
	f.Fuzz(func(t *testing.T, a, b string) {
		h := tenHeaders()
		h["Connection"] = []string{a, b}
		DropNominated(h)
		before := len(h)
		for _, line := range h["Connection"] {
			for name := range strings.SplitSeq(line, ",") {
				h.Del(strings.TrimSpace(name))
			}
		}
		if _, ok := h["Connection"]; len(h) != before && (ok || len(h) != before-1) {
			t.Errorf("%q, %q: %d of %d left", a, b, len(h), before)
		}
		if _, ok := h["Content-Type"]; !ok {
			t.Error("the body has lost its type")
		}
	})
}

// A credential with the name of a forwarding header outlives the proxy's removal.
func TestKeepCredentials(t *testing.T) {
	id := mustNew(t, Config{Identify: []Source{
		{Kind: KindHeader, Header: "x-forwarded-user"}, {Kind: KindHeader, Header: "X-Api-Key"}, {Kind: KindHeader, Header: "X-Tenant"},
	}}, nil)
	in := headersNamed([]string{"X-Forwarded-User", "X-Forwarded-For", "X-Api-Key"})
	id.Clean(in, false)
	out := http.Header{"X-Api-Key": {"kept"}}
	id.KeepCredentials(in, out)
	if got := remaining(out); !slices.Equal(got, []string{"X-Api-Key", "X-Forwarded-User"}) || out.Get("X-Api-Key") != "kept" {
		t.Errorf("%v", out)
	}
}

func BenchmarkDropNominatedNothing(b *testing.B) {
	h := tenHeaders()
	h.Set("Connection", "keep-alive, Upgrade")
	b.ReportAllocs()
	for b.Loop() {
		DropNominated(h)
	}
}
