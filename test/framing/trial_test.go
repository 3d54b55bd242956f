package framing

import (
	"io"
	"log"
	"net"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func listen(t *testing.T) *Service {
	t.Helper()
	s, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// played returns the problems of the named cases.
func played(t *testing.T, trial *Trial, names ...string) map[string]string {
	t.Helper()
	cases, err := Cases()
	if err != nil {
		t.Fatal(err)
	}
	problems := map[string]string{}
	for i := range cases {
		if !slices.Contains(names, cases[i].Name) {
			continue
		}
		r, err := trial.Play(t.Context(), &cases[i])
		if err != nil {
			t.Fatal(err)
		}
		problems[cases[i].Name] = strings.Join(r.Problems, "\n")
	}
	if len(problems) != len(names) {
		t.Fatalf("%d of %d cases found", len(problems), len(names))
	}
	return problems
}

// tunnel copies bytes to the service and back, as a proxy that judges nothing.
func tunnel(t *testing.T, to string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			front, err := l.Accept()
			if err != nil {
				return
			}
			back, err := net.Dial("tcp", to)
			if err != nil {
				t.Error(err)
				return
			}
			both := func(a, b net.Conn) {
				_, _ = io.Copy(a, b)
				_, _ = a.Close(), b.Close()
			}
			wg.Go(func() { both(front, back) })
			wg.Go(func() { both(back, front) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
	return l.Addr().String()
}

// A proxy that judges nothing is found out, by the answers alone and by what
// arrives.
func TestBlindProxyIsWrong(t *testing.T) {
	s := listen(t)
	addr := tunnel(t, s.Addr())
	found := map[string]string{
		"a00-get":                       "",
		"a00-post":                      "",
		"a00-head":                      "",
		"a03-chunked":                   "",
		"a01-length-and-chunked":        "more than one length",
		"a02-list-of-lengths":           `its length is "5, 5"`,
		"a02-length-with-leading-zeros": `its length is "0000005"`,
		"a03-upper-case":                `its transfer coding is "CHUNKED"`,
		"a05-extension":                 `a chunk begins with "5;a=b"`,
		"a05-data-too-long":             "a chunk of 5 bytes goes on with",
		"a06-folded":                    "does not begin with a name",
		"a07-value-with-nul":            "holds a control character",
		"a08-line-feed-after-field":     "ends in a bare line feed",
		"a09-two-hosts":                 "it has 2 Host fields",
		"a11-version-2-0":               "is not method, target and HTTP/1.1",
		"a13-upgrade-h2c":               `the field Upgrade: "h2c"`,
		"a16-answer-and-another":        "a second answer, 200 with \"poison\"",
		"a16-early-refusal":             "neither an answer nor a close in time",
		"g50-dots":                      "status 200, want 400",
	}
	for _, slow := range []bool{false, true} {
		trial := &Trial{Addr: addr, Service: s, Slow: slow, Timeout: 300 * time.Millisecond}
		var names []string
		for name := range found {
			names = append(names, name)
		}
		for name, got := range played(t, trial, names...) {
			if want := found[name]; want == "" && got != "" || !strings.Contains(got, want) {
				t.Errorf("slow %v, %s:\ngot  %s\nwant %s", slow, name, got, want)
			}
		}
	}
	alone := played(t, &Trial{Addr: addr, Timeout: time.Second}, "a00-get", "g50-dots", "a09-two-hosts")
	if alone["a00-get"] != "" || alone["g50-dots"] == "" || alone["a09-two-hosts"] == "" {
		t.Errorf("by the answers alone: %q", alone)
	}
}

// What is known of the standard library's proxy is what the trial says of it.
func TestReverseProxy(t *testing.T) {
	s := listen(t)
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: s.Addr()})
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	server := httptest.NewServer(proxy)
	defer server.Close()
	trial := &Trial{Addr: server.Listener.Addr().String(), Service: s}
	wrong := []string{"a01-length-and-chunked", "a06-folded", "a08-line-feeds-only", "a11-fragment", "a12-version-1-0-chunked", "a13-upgrade-h2c", "a05-data-too-long"}
	right := []string{
		"a00-get", "a00-head", "a00-post", "a00-close", "a02-two-lengths", "a02-same-length-twice", "a03-xchunked", "a04-chunked-and-tab",
		"a05-trailer-host", "a07-value-with-nul", "a09-no-host", "a09-absolute-form", "a12-version-1-0",
	}
	for name, got := range played(t, trial, slices.Concat(wrong, right)...) {
		if known := slices.Contains(wrong, name); known != (got != "") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// A request that is begun at the service and then left hanging is found.
func TestHangingRequest(t *testing.T) {
	s := listen(t)
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel"); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(5 * time.Second); ; {
		if _, hanging := s.settle(t.Context(), false, time.Millisecond); hanging {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("never seen")
		}
	}
	_ = conn.Close()
	if r, hanging := s.settle(t.Context(), false, 5*time.Second); hanging || len(r.arrivals) != 1 || r.arrivals[0].complete {
		t.Errorf("%+v, hanging %v", r, hanging)
	}
}
