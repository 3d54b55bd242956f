package remote

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/internal/memhttp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// service publishes a document.
type service struct {
	mu      sync.Mutex
	answer  http.HandlerFunc // nil: text with an ETag
	text    string
	looks   []time.Time
	headers []http.Header
	served  int // answers with a body
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks = append(s.looks, time.Now())
	s.headers = append(s.headers, r.Header)
	if s.answer != nil {
		s.answer(w, r)
		return
	}
	etag := fmt.Sprintf(`"%x"`, crc32.ChecksumIEEE([]byte(s.text)))
	w.Header().Set("Etag", etag)
	if r.Header.Get("If-None-Match") == etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	s.served++
	fmt.Fprint(w, s.text)
}

func (s *service) publish(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text, s.answer = text, nil
}

func (s *service) answers(h http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = h
}

func (s *service) count() (looks, served int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.looks), s.served
}

// run plays f against a switch that looks at a service, both in virtual time.
func run(t *testing.T, c Config, text string, f func(t *testing.T, s *Switch, sv *service)) {
	synctest.Test(t, func(t *testing.T) {
		var network memhttp.Network
		sv := &service{text: text}
		server := network.Serve("api", sv)
		defer server.Close()
		c.URL, c.HTTP = server.URL+Path, network.Client()
		c.HTTP.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		defer c.HTTP.CloseIdleConnections()
		if c.Rand == nil {
			c.Rand = func() float64 { return 0.5 }
		}
		s := newSwitch(t, c)
		stopped := errors.New("stopped")
		ctx, stop := context.WithCancelCause(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		f(t, s, sv)
		stop(stopped)
		if err := <-done; !errors.Is(err, stopped) {
			t.Errorf("Run returned %v, want the cause of the end", err)
		}
	})
}

// after lets virtual time pass.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestRunLooksAndFollows(t *testing.T) {
	var applied []uint64
	version, _ := comporta.ParseClientVersion("acme-go/2.1.0-rc.1")
	c := Config{Version: version, Trace: Trace{Applied: func(s *Switch) { applied = append(applied, s.StatusAt(epoch).Version) }}}
	run(t, c, `{"version":1}`, func(t *testing.T, s *Switch, sv *service) {
		synctest.Wait()
		if looks, _ := sv.count(); looks != 0 {
			t.Error("looked at once: a deployment would come all in one moment")
		}
		after(3 * time.Second)
		if looks, served := sv.count(); looks != 1 || served != 1 {
			t.Fatalf("%d looks, %d served", looks, served)
		}
		after(time.Minute)
		if looks, served := sv.count(); looks != 2 || served != 1 {
			t.Errorf("%d looks, %d served: the second should not be modified", looks, served)
		}
		if got := sv.headers[1].Get("Client-Version"); got != "acme-go/2.1.0-rc.1" {
			t.Errorf("Client-Version %q", got)
		}
		sv.publish(`{"version":2,"max_attempts":1,"poll_s":20}`)
		after(time.Minute)
		if got := tightened(s.LimitsAt(time.Now(), "api", "/")).MaxAttempts; got != 1 {
			t.Errorf("%d attempts a minute after it was published", got)
		}
		after(time.Minute)
		if looks, _ := sv.count(); looks != 6 {
			t.Errorf("%d looks, want 3 more in a minute at poll_s 20", looks)
		}
		if len(applied) != 2 || applied[0] != 1 || applied[1] != 2 {
			t.Errorf("applied %v", applied)
		}
	})
}

// Nothing that the service answers, or does not, loosens or tightens what is in
// force, and the look after it comes at its time.
func TestRunSurvivesEverything(t *testing.T) {
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	text := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }
	}
	for name, answer := range map[string]http.HandlerFunc{
		"absent":                     status(http.StatusNotFound),
		"failing":                    status(http.StatusInternalServerError),
		"no content":                 status(http.StatusNoContent),
		"redirect":                   func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) },
		"older":                      text(`{"version":6,"max_attempts":4}`),
		"unreadable":                 text(`{"version":8,"max_attempts":-4}`),
		"a login":                    text(`<html>`),
		"not modified for no reason": status(http.StatusNotModified),
		"endless": func(w http.ResponseWriter, r *http.Request) {
			chunk := []byte(strings.Repeat(" ", 32<<10))
			for r.Context().Err() == nil {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		},
		"hangs":    func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"hangs up": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"stops half": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "99")
			fmt.Fprint(w, `{"version":8}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var failed atomic.Int64
			c := Config{Trace: Trace{Failed: func(error) { failed.Add(1) }}}
			run(t, c, `{"version":7,"max_attempts":2}`, func(t *testing.T, s *Switch, sv *service) {
				after(4 * time.Second)
				sv.answers(answer)
				after(75 * time.Second) // a look, and the time that a hanging one has
				if st := s.StatusAt(time.Now()); st.Version != 7 || tightened(s.LimitsAt(time.Now(), "api", "/")).MaxAttempts != 2 {
					t.Errorf("%+v", st)
				}
				if want := int64(1); failed.Load() != want && name != "not modified for no reason" {
					t.Errorf("told of %d failures, want %d", failed.Load(), want)
				}
				sv.publish(`{"version":8,"max_attempts":1}`)
				after(75 * time.Second)
				if got := s.StatusAt(time.Now()).Version; got != 8 {
					t.Errorf("version %d after it works again", got)
				}
			})
		})
	}
}

// A server that asks to be left alone is.
func TestRunObeysRetryAfter(t *testing.T) {
	run(t, Config{}, `{"version":1}`, func(t *testing.T, s *Switch, sv *service) {
		after(4 * time.Second)
		sv.answers(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "600")
			w.Header().Set("Retry-Policy", "max=1;ttl=60")
			w.WriteHeader(http.StatusServiceUnavailable)
		})
		after(time.Minute)
		if got := tightened(s.LimitsAt(time.Now(), "api", "/")).MaxAttempts; got != 1 {
			t.Errorf("%d attempts: the look itself met a refusal with a policy", got)
		}
		before, _ := sv.count()
		after(590 * time.Second)
		if looks, _ := sv.count(); looks != before {
			t.Errorf("%d looks while it wanted none", looks-before)
		}
		after(30 * time.Second)
		if looks, _ := sv.count(); looks != before+1 {
			t.Errorf("%d looks after that", looks-before)
		}
	})
}

func TestRunOnce(t *testing.T) {
	run(t, Config{}, `{"version":1}`, func(t *testing.T, s *Switch, _ *service) {
		synctest.Wait()
		if err := s.Run(t.Context()); !errors.Is(err, ErrRunning) {
			t.Errorf("a second Run: %v", err)
		}
	})
}

func TestRunWithoutURL(t *testing.T) {
	s, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err = s.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// A client that starts while the service is down knows what it knew.
func TestFileOutlivesTheProcess(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.json")
	c := Config{File: file}
	run(t, c, `{"version":7,"max_attempts":1}`, func(*testing.T, *Switch, *service) { after(4 * time.Second) })
	if names, _ := filepath.Glob(filepath.Join(filepath.Dir(file), "*")); len(names) != 1 {
		t.Errorf("files %q", names)
	}
	run(t, c, `{"version":7,"max_attempts":1}`, func(t *testing.T, s *Switch, sv *service) {
		if got := tightened(s.LimitsAt(time.Now(), "api", "/")).MaxAttempts; got != 1 {
			t.Errorf("%d attempts at the start", got)
		}
		after(4 * time.Second)
		if looks, served := sv.count(); looks != 1 || served != 0 {
			t.Errorf("%d looks and %d served: the ETag is kept too", looks, served)
		}
	})
	other := newSwitch(t, Config{File: file, URL: "https://other.example" + Path})
	if got := other.StatusAt(epoch).Version; got != 0 {
		t.Error("took the document of another service")
	}
}

func TestFileIsDamaged(t *testing.T) {
	for name, text := range map[string]string{
		"empty":      "",
		"torn":       `{"url":"` + apiURL + `","document":{"versi`,
		"no JSON":    "\x00\x00\x00",
		"unreadable": `{"url":"` + apiURL + `","document":{"version":0}}`,
		"nothing":    `{"url":"` + apiURL + `"}`,
		"too long":   `{"url":"` + apiURL + `","document":{"version":1}}` + strings.Repeat(" ", maxFile),
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "policy.json")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			failed := 0
			s := newSwitch(t, Config{File: file, URL: apiURL, Trace: Trace{Failed: func(error) { failed++ }}})
			if got := limits(s, epoch, "/"); got != own || failed != 1 {
				t.Errorf("%+v, told of %d failures", got, failed)
			}
			apply(t, s, `{"version":3}`)
			again := newSwitch(t, Config{File: file, URL: apiURL})
			if got := again.StatusAt(epoch).Version; got != 3 {
				t.Errorf("version %d after it was written anew", got)
			}
		})
	}
}

// A document that cannot be kept is in force all the same, and the next look
// tries again.
func TestFileCannotBeWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s := newSwitch(t, Config{File: filepath.Join(dir, "policy.json")})
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := s.apply(`{"version":3}`, "", false); err == nil {
		t.Error("kept it nowhere")
	}
	if got := s.StatusAt(epoch).Version; got != 3 {
		t.Errorf("version %d", got)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	apply(t, s, `{"version":3}`)
	if _, err := os.Stat(s.config.File); err != nil {
		t.Error(err)
	}
}

// A server without ETags sends the same again and again; the disk is spared.
func TestFileIsWrittenOnce(t *testing.T) {
	s := newSwitch(t, Config{File: filepath.Join(t.TempDir(), "policy.json")})
	apply(t, s, `{"version":3}`)
	if err := os.Remove(s.config.File); err != nil {
		t.Fatal(err)
	}
	apply(t, s, `{"version":3}`)
	if _, err := os.Stat(s.config.File); err == nil {
		t.Error("wrote what it had written")
	}
	apply(t, s, `{"version":4}`)
	if _, err := os.Stat(s.config.File); err != nil {
		t.Error(err)
	}
}

// Readers and writers at once, for the race detector.
func TestHammer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.json")
	s := newSwitch(t, Config{File: file})
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 50 {
				now := epoch.Add(time.Duration(i) * time.Second)
				_ = s.apply(fmt.Sprintf(`{"version":%d,"max_attempts":%d}`, i+1, 1+g), "", false) // some are older
				s.HeardAt(now, api, "max=2;ttl=5")
				if l := limits(s, now, "/"); l.MaxAttempts < 1 || l.MaxAttempts > 4 {
					t.Errorf("%+v", l)
				}
				s.StatusAt(now)
			}
		})
	}
	wg.Wait()
	if got := s.StatusAt(epoch).Version; got != 50 {
		t.Errorf("version %d, want the youngest", got)
	}
	if got := newSwitch(t, Config{File: file}).StatusAt(epoch).Version; got != 50 {
		t.Errorf("the file has version %d", got)
	}
}

func FuzzRestore(f *testing.F) {
	f.Add([]byte(`{"url":"` + apiURL + `","etag":"\"x\"","document":{"version":1,"max_attempts":1}}`))
	f.Add([]byte(`{"document":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		file := filepath.Join(t.TempDir(), "policy.json")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		s := newSwitch(t, Config{File: file})
		if l := limits(s, epoch, "/"); l.MaxAttempts < 1 || l.MaxAttempts > own.MaxAttempts || l.Total > own.Total {
			t.Fatalf("%+v", l)
		}
	})
}
