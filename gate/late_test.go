package gate

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"
)

// A service that writes when its exchange is over, to a caller that left, is out of
// order, and may do no harm: what it could still reach belongs to others by then.
func TestLateWriterTouchesNothing(t *testing.T) {
	g, err := New(Config{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	req := httptest.NewRequestWithContext(gone, http.MethodGet, "/orders", http.NoBody)
	for name, header := range map[string]http.Header{
		"a failure with a reason": {"Content-Type": {"application/json"}, "Content-Length": {"2"}},
		"a stream":                {"Content-Type": {"text/event-stream"}},
		"no length":               {},
	} {
		var late http.ResponseWriter
		answer := httptest.NewRecorder()
		g.Serve(answer, req, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { late = w }))
		maps.Copy(late.Header(), header)
		late.WriteHeader(http.StatusInternalServerError)
		if n, err := late.Write([]byte("{}")); n != 2 || err != nil || answer.Code != http.StatusInternalServerError {
			t.Errorf("%s: status %d, %d bytes, %v; the transport is to judge", name, answer.Code, n, err)
		}
		x, ok := late.(*exchange)
		if !ok || x.minder != nil || len(spent.held) > 0 || len(spent.capture) > 0 || spent.d.gate != nil {
			t.Errorf("%s: minder %v, and left behind %q and %q", name, x.minder, spent.held, spent.capture)
		}
	}
}

// The short way reads what the long one reads, and nothing else.
func TestDotted(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.7:50712": "192.0.2.7", "0.0.0.0:1": "0.0.0.0", "255.255.255.255:65535": "255.255.255.255",
		"192.0.2.7": "", "192.0.2.7:": "", "192.0.2.256:1": "", "192.0.2.07:1": "", "192.0.2:1": "", "1.2.3.4.5:6": "",
		"1.2.3.4:5:6": "", "1.2.3.4:5.6": "", "1..3.4:5": "", ".1.2.3:4": "", "1.2.3.4:99999999": "", "1.2.3.4294967300:1": "",
		"": "", ":": "", "[::1]:80": "", "pipe": "", " 1.2.3.4:5": "", "1.2.3.4:5 ": "", "-1.2.3.4:5": "",
	} {
		addr, ok := dotted(remote)
		if got := addr.String(); ok != (want != "") || ok && got != want {
			t.Errorf("%q: %v, %v, want %q", remote, got, ok, want)
		}
		if ok && peer(remote) != addr {
			t.Errorf("%q: %v is not %v", remote, peer(remote), addr)
		}
	}
}
