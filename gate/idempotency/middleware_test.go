package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate/idempotency"
	"github.com/comporta/comporta/gate/overload"
	"github.com/comporta/comporta/internal/memhttp"
	"github.com/comporta/comporta/store/memstore"
)

// site is a service behind the middleware alone, in virtual time.
type site struct {
	client *http.Client
	calls  atomic.Int64
}

func run(t *testing.T, f idempotency.Face, service http.HandlerFunc, body func(t *testing.T, s *site)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		k, err := idempotency.New(idempotency.Config{Store: memstore.New(memstore.Config{})})
		if err != nil {
			t.Fatal(err)
		}
		once, err := k.Middleware(f)
		if err != nil {
			t.Fatal(err)
		}
		var network memhttp.Network
		s := &site{}
		mux := http.NewServeMux()
		mux.Handle("/orders/{id}", once(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.calls.Add(1)
			service(w, r)
		})))
		server := network.Serve("site", mux)
		s.client = network.Client()
		body(t, s)
		s.client.CloseIdleConnections()
		synctest.Wait()
		if err := errors.Join(k.Close(t.Context()), server.Close()); err != nil {
			t.Error(err)
		}
	})
}

func (s *site) post(ctx context.Context, path, key string, body io.Reader, header ...string) (status int, h http.Header, text string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://site"+path, body)
	if err != nil {
		return 0, nil, err.Error()
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := s.client.Do(req)
	if err != nil {
		return 0, nil, err.Error()
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, nil, err.Error()
	}
	if len(res.Trailer) > 0 {
		res.Header["Trailing"] = []string{fmt.Sprint(res.Trailer)}
	}
	return res.StatusCode, res.Header, string(b)
}

func echo(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	_, _ = fmt.Fprintf(w, "%s %s", r.URL.Path, b)
}

func TestMiddleware(t *testing.T) {
	run(t, idempotency.Face{}, echo, func(t *testing.T, s *site) {
		ask := func(path, key, body string, header ...string) (int, bool, string) {
			status, h, text := s.post(t.Context(), path, key, strings.NewReader(body), header...)
			return status, h.Get("Idempotency-Replayed") == "true", text
		}
		for i, tc := range []struct {
			path, key, body string
			header          []string
			status          int
			replayed        bool
			calls           int64
			detail          comporta.Detail
		}{
			{"/orders/1", "k", "apple", nil, 200, false, 1, comporta.DetailNone},
			{"/orders/1", `"k"`, "apple", nil, 200, true, 1, comporta.DetailNone},
			{"/orders/1", "k", "pear", nil, 422, false, 1, comporta.OtherBody},
			{"/orders/2", "k", "apple", nil, 422, false, 1, comporta.OtherTarget}, // one pattern is one route
			{"/orders/1?x", "k", "apple", nil, 422, false, 1, comporta.OtherTarget},
			{"/orders/1", "k", "apple", []string{"Authorization", "Bearer b"}, 200, false, 2, comporta.DetailNone},
			{"/orders/1", "k", "apple", []string{"Authorization", "Bearer b"}, 200, true, 2, comporta.DetailNone},
			{"/orders/1", "k", "apple", []string{"Cookie", "b"}, 200, false, 3, comporta.DetailNone},
			{"/orders/1", "", "apple", nil, 200, false, 4, comporta.DetailNone}, // not required
			{"/orders/1", `"`, "apple", nil, 400, false, 4, comporta.KeyUnclosed},
			{"/orders/1", "k", "apple", []string{"Upgrade", "h2c"}, 200, true, 4, comporta.DetailNone},
			{"/orders/1", "k", "apple", []string{"Upgrade", "h2c", "Connection", "Upgrade, HTTP2-Settings", "Http2-Settings", "AAMAAABk"}, 200, true, 4, comporta.DetailNone},
			{"/orders/1", "k", "apple", []string{"Upgrade", "x", "Connection", "Upgrade"}, 200, true, 4, comporta.DetailNone},
		} {
			status, replayed, text := ask(tc.path, tc.key, tc.body, tc.header...)
			if status != tc.status || replayed != tc.replayed || s.calls.Load() != tc.calls {
				t.Errorf("request %d: %d %v %q, %d calls", i, status, replayed, text, s.calls.Load())
			}
			if tc.detail != comporta.DetailNone && !strings.Contains(text, `"detail":"`+tc.detail.String()+`"`) {
				t.Errorf("request %d: %q, want %q", i, text, tc.detail)
			}
		}
	})
}

// One who stood by for a call that was refused is told so, and the key is free.
func TestMiddlewarePassesRefusalsToThoseWhoStandBy(t *testing.T) {
	first := true
	run(t, idempotency.Face{Policy: idempotency.Policy{Wait: true}}, func(w http.ResponseWriter, _ *http.Request) {
		if !first {
			return
		}
		first = false
		time.Sleep(2 * time.Second)
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusServiceUnavailable)
	}, func(t *testing.T, s *site) {
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				status, h, _ := s.post(t.Context(), "/orders/1", "k", strings.NewReader("x"))
				if status != 503 || h.Get("Retry-After") != "7" || h.Get("Idempotency-Replayed") != "" {
					t.Errorf("%d %v", status, h)
				}
			})
		}
		all.Wait()
		if status, h, _ := s.post(t.Context(), "/orders/1", "k", strings.NewReader("x")); status != 200 || h.Get("Idempotency-Replayed") != "" || s.calls.Load() != 2 {
			t.Errorf("%d %v, %d calls", status, h, s.calls.Load())
		}
	})
}

// One who stood by for a gRPC call that was refused is told when to come as gRPC has
// it, wherever the service said it.
func TestMiddlewarePassesRefusalsOfCallsToThoseWhoStandBy(t *testing.T) {
	for _, tc := range []struct{ said, want string }{{"7000", "7000"}, {"-1", "-1"}, {"soon", "-1"}, {"", "1000"}} {
		for _, prefix := range []string{"", http.TrailerPrefix} {
			run(t, idempotency.Face{Policy: idempotency.Policy{Wait: true}}, func(w http.ResponseWriter, _ *http.Request) {
				time.Sleep(2 * time.Second)
				w.Header().Set("Content-Type", "application/grpc")
				if prefix != "" {
					_, _ = io.WriteString(w, "a message")
				}
				w.Header().Set(prefix+"Grpc-Status", "14")
				if tc.said != "" {
					w.Header().Set(prefix+"Grpc-Retry-Pushback-Ms", tc.said)
				}
			}, func(t *testing.T, s *site) {
				call := func() http.Header {
					_, h, _ := s.post(t.Context(), "/orders/1", "k", strings.NewReader("x"), "Content-Type", "application/grpc")
					return h
				}
				var first sync.WaitGroup
				first.Go(func() { call() })
				synctest.Wait()
				h := call()
				got, want := fmt.Sprint(h["Grpc-Retry-Pushback-Ms"], h["Grpc-Status"]), "["+tc.want+"] [14]"
				if prefix != "" {
					got, want = h.Get("Trailing"), "map[Grpc-Retry-Pushback-Ms:["+tc.want+"] Grpc-Status:[14]]"
				}
				if got != want || s.calls.Load() != 1 {
					t.Errorf("%q said in %q: told %s, want %s; %d calls", tc.said, prefix, got, want, s.calls.Load())
				}
				first.Wait()
			})
		}
	}
}

// The caller's patience is not passed on: the work outlives it.
func TestMiddlewareKeepsThePatienceOfTheCaller(t *testing.T) {
	told := make(chan http.Header, 1)
	run(t, idempotency.Face{}, func(_ http.ResponseWriter, r *http.Request) { told <- r.Header.Clone() }, func(t *testing.T, s *site) {
		s.post(t.Context(), "/orders/1", "k", strings.NewReader("x"), "Grpc-Timeout", "1S", "Request-Timeout-Ms", "1000", "Accept", "a/b")
		if h := <-told; h.Get("Grpc-Timeout") != "" || h.Get("Request-Timeout-Ms") != "" || h.Get("Accept") != "a/b" {
			t.Errorf("%v", h)
		}
	})
}

func TestMiddlewareStandsByAndDigestsAsItPasses(t *testing.T) {
	var hold chan struct{}
	large := strings.Repeat("x", 100<<10)
	face := idempotency.Face{
		Policy: idempotency.Policy{Wait: true, Require: true}, ReadAhead: 1 << 10,
		Client: func(r *http.Request) string { return r.Header.Get("Tenant") }, Route: func(*http.Request) string { return "orders" },
	}
	run(t, face, func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		<-hold
		_, _ = fmt.Fprint(w, len(b), err)
	}, func(t *testing.T, s *site) {
		hold = make(chan struct{})
		if status, _, text := s.post(t.Context(), "/orders/1", "", strings.NewReader("x")); status != 400 || !strings.Contains(text, "idempotency_key_missing") {
			t.Errorf("%d %s", status, text)
		}
		var all sync.WaitGroup
		var replayed atomic.Int64
		for i := range 8 {
			all.Go(func() {
				body := large
				if i == 7 {
					body = large[1:] + "y"
				}
				status, h, text := s.post(t.Context(), "/orders/1", "k", strings.NewReader(body), "Tenant", "a")
				switch {
				case i == 7 && (status != 422 || !strings.Contains(text, comporta.OtherBody.String())), i < 7 && (status != 200 || !strings.HasPrefix(text, "102400")):
					t.Errorf("%d: %d %s", i, status, text)
				case h.Get("Idempotency-Replayed") == "true":
					replayed.Add(1)
				}
			})
			synctest.Wait()
		}
		close(hold)
		all.Wait()
		if s.calls.Load() != 1 || replayed.Load() != 6 {
			t.Errorf("%d calls, %d replayed", s.calls.Load(), replayed.Load())
		}
	})
}

// The application's own words about failures decide what becomes of the key.
func TestMiddlewareAndRefusalsOfTheService(t *testing.T) {
	run(t, idempotency.Face{}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/orders/busy" {
			overload.Busy(w, r, time.Second)
			return
		}
		overload.Deterministic(w, r, 409, "sold_out", "")
	}, func(t *testing.T, s *site) {
		for range 2 {
			s.post(t.Context(), "/orders/busy", "a", strings.NewReader(""))
		}
		if s.calls.Load() != 2 {
			t.Errorf("%d calls while it was busy", s.calls.Load())
		}
		for range 2 {
			s.post(t.Context(), "/orders/final", "b", strings.NewReader(""))
		}
		if s.calls.Load() != 3 {
			t.Errorf("%d calls", s.calls.Load())
		}
	})
}

// Trailers and flushed pieces come again, and pieces leave as they are written.
func TestStreamedAnswersAndTrailers(t *testing.T) {
	var next chan struct{}
	run(t, idempotency.Face{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "Announced")
		w.Header().Set("Content-Type", "application/grpc")
		for _, piece := range []string{"one ", "two ", "three"} {
			_, _ = io.WriteString(w, piece)
			_ = http.NewResponseController(w).Flush()
			<-next
		}
		w.Header().Set("Announced", "a")
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	}, func(t *testing.T, s *site) {
		next = make(chan struct{})
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://site/orders/1", strings.NewReader(""))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Idempotency-Key", "k")
		res, err := s.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		piece := make([]byte, 4)
		if n, err := io.ReadFull(res.Body, piece); err != nil || string(piece[:n]) != "one " {
			t.Fatalf("%q %v", piece, err)
		}
		for range 3 {
			next <- struct{}{}
		}
		rest, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || string(rest) != "two three" || res.Trailer.Get("Announced") != "a" {
			t.Fatalf("%q %v %v", rest, res.Trailer, err)
		}
		_, h, text := s.post(t.Context(), "/orders/1", "k", strings.NewReader(""))
		if text != "one two three" || h.Get("Idempotency-Replayed") != "true" || h.Get("Trailing") != "map[Announced:[a] Grpc-Status:[0]]" {
			t.Errorf("%q %v", text, h)
		}
	})
}

// An answer is recorded before its last byte leaves, also when it has no body.
func TestRecordedBeforeTheLastByte(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter){
		"no content": func(w http.ResponseWriter) { w.WriteHeader(http.StatusNoContent) },
		"empty":      func(w http.ResponseWriter) { w.Header().Set("Content-Length", "0"); w.WriteHeader(http.StatusOK) },
		"one piece":  func(w http.ResponseWriter) { w.Header().Set("Content-Length", "2"); _, _ = io.WriteString(w, "ok") },
		"two pieces": func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "2")
			_, _ = w.Write([]byte("o"))
			_, _ = w.Write([]byte("k"))
		},
		"early hints": func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Set("Content-Length", "0")
			w.WriteHeader(http.StatusOK)
		},
		"nothing said": func(http.ResponseWriter) {},
	} {
		t.Run(name, func(t *testing.T) {
			order := []string{}
			inner := &watched{ResponseRecorder: httptest.NewRecorder(), write: func() { order = append(order, "wrote") }}
			rec := idempotency.NewRecorder(inner, 100, func(complete bool) {
				if !complete {
					t.Error("not complete")
				}
				order = append(order, "recorded")
			})
			answer(rec)
			rec.Close(true)
			if len(order) == 0 || order[len(order)-1] != "wrote" || strings.Count(strings.Join(order, " "), "recorded") != 1 {
				t.Errorf("%v", order)
			}
		})
	}
}

// watched tells of every byte that leaves.
type watched struct {
	*httptest.ResponseRecorder

	write func()
}

func (w *watched) WriteHeader(status int) {
	if status >= 200 {
		w.write()
	}
	w.ResponseRecorder.WriteHeader(status)
}

func (w *watched) Write(p []byte) (int, error) {
	w.write()
	return w.ResponseRecorder.Write(p)
}

func TestDetach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drained := errors.New("drained")
		for _, tc := range []struct {
			name  string
			end   func(context.CancelCauseFunc)
			after time.Duration // from the end of the caller to that of the work
			cause error
		}{
			{"left", func(c context.CancelCauseFunc) { c(nil) }, time.Minute, context.Canceled},
			{"drained", func(c context.CancelCauseFunc) { c(drained) }, 0, drained},
		} {
			ctx, cancel := context.WithCancelCause(t.Context())
			work, release := idempotency.Detach(ctx, time.Minute)
			tc.end(cancel)
			start := time.Now()
			synctest.Wait()
			if ended := work.Err() != nil; ended != (tc.after == 0) {
				t.Errorf("%s: ended at once: %v", tc.name, ended)
			}
			<-work.Done()
			if took := time.Since(start); took != tc.after || !errors.Is(context.Cause(work), tc.cause) {
				t.Errorf("%s: ended after %v with %v", tc.name, took, context.Cause(work))
			}
			release()
		}
		// The work ends with its request, and no timer is left behind.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		work, release := idempotency.Detach(ctx, time.Hour)
		time.Sleep(2 * time.Second)
		cancel()
		if _, deadline := work.Deadline(); deadline || work.Err() != nil {
			t.Errorf("the caller's deadline counts: %v", work.Err())
		}
		release()
	})
}

// A client that has left does not end the work: what is written on is recorded.
func TestRecorderGoesOnWithoutItsClient(t *testing.T) {
	ended := false
	rec := idempotency.NewRecorder(broken{httptest.NewRecorder()}, 100, func(complete bool) { ended = complete })
	for _, piece := range []string{"one ", "two ", "three"} {
		if n, err := io.WriteString(rec, piece); n != len(piece) || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		if err := http.NewResponseController(rec).Flush(); err != nil {
			t.Error(err)
		}
	}
	rec.Close(true)
	if a := rec.Answer(); !ended || string(a.Body) != "one two three" || a.Status != 200 {
		t.Errorf("%v, %+v", ended, a)
	}
}

// broken is the writer of a client that has left.
type broken struct{ *httptest.ResponseRecorder }

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
