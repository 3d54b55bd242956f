package client_test

import (
	"context"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/comporta/comporta/client"
	"github.com/comporta/comporta/client/budget"
	"github.com/comporta/comporta/internal/memhttp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// seen is a request as the service got it.
type seen struct {
	at     time.Time
	method string
	header http.Header
	body   string
	length int64
}

// service counts what reaches it and answers as it is told.
type service struct {
	answer func(n int, w http.ResponseWriter, r *http.Request) // n from 1

	mu  sync.Mutex
	got []seen
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.got = append(s.got, seen{time.Now(), r.Method, r.Header.Clone(), string(body), r.ContentLength})
	n := len(s.got)
	s.mu.Unlock()
	s.answer(n, w, r)
}

func (s *service) calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.got)
}

// seen returns what has come so far; some of it may still be answered.
func (s *service) seen() []seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

// bench is a service, a client with an envelope, and the wire between them.
type bench struct {
	t       *testing.T
	network *memhttp.Network
	service *service
	wire    *http.Transport
	client  *client.Client
	http    *http.Client
	secure  bool // get asks by https
}

// run runs f in a bubble, with a service under http://service/. The bubble fails
// the test when a goroutine is left.
func run(t *testing.T, c client.Config, answer func(n int, w http.ResponseWriter, r *http.Request), f func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, network: &memhttp.Network{}, service: &service{answer: answer}}
		server := b.network.Serve("service", b.service)
		b.wire = b.network.Client().Transport.(*http.Transport)
		b.client = make1(t, c)
		b.http = b.client.HTTP(&http.Client{Transport: b.wire})
		f(b)
		b.http.CloseIdleConnections()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
}

func make1(t testing.TB, c client.Config) *client.Client {
	t.Helper()
	made, err := client.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// status answers every request with one status and header.
func status(code int, header ...string) func(int, http.ResponseWriter, *http.Request) {
	return func(_ int, w http.ResponseWriter, _ *http.Request) { reply(w, code, "answer", header...) }
}

func reply(w http.ResponseWriter, code int, body string, header ...string) {
	for i := 0; i < len(header); i += 2 {
		w.Header().Set(header[i], header[i+1])
	}
	w.WriteHeader(code)
	_, _ = io.WriteString(w, body)
}

// then answers with each code in turn, and goes on with the last.
func then(codes ...int) func(int, http.ResponseWriter, *http.Request) {
	return func(n int, w http.ResponseWriter, _ *http.Request) { reply(w, codes[min(n, len(codes))-1], "answer") }
}

func request(t testing.TB, ctx context.Context, method string, body io.Reader, header ...string) *http.Request { //nolint:revive // t first, as in all helpers
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, "http://service/", body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return req
}

// do sends a request and reads the whole answer.
func (b *bench) do(req *http.Request) (*http.Response, string, error) {
	b.t.Helper()
	resp, err := b.http.Do(req)
	if err != nil {
		return nil, "", err
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Errorf("body: %v", err)
	}
	_ = resp.Body.Close()
	return resp, string(body), nil
}

func (b *bench) get() (*http.Response, string, error) {
	b.t.Helper()
	req := request(b.t, b.t.Context(), "GET", nil)
	if b.secure {
		req.URL.Scheme = "https"
	}
	return b.do(req)
}

// within is a GET whose context ends after d.
func (b *bench) within(d time.Duration) (*http.Response, string, error) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), d)
	defer cancel()
	return b.do(request(b.t, ctx, "GET", nil))
}

// expect checks the calls that reached the service and why there were no more.
func (b *bench) expect(calls int) {
	b.t.Helper()
	if n := b.service.calls(); n != calls {
		b.t.Errorf("%d calls, want %d", n, calls)
	}
}

// big is a budget that does not run out.
var big = budget.Config{Burst: 100_000}
