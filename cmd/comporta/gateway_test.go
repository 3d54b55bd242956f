package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/comporta/comporta/internal/admin"
	"github.com/comporta/comporta/internal/config"
)

// patience bounds whatever a test waits for: only a failing one uses it up.
const patience = 20 * time.Second

// gateway is a running app with real listeners.
type gateway struct {
	file       string
	url, admin string
	log        *journal
	access     *journal
	client     *http.Client

	hup, again chan os.Signal
	stop       context.CancelFunc
	ended      chan struct{}
	err        error // once ended is closed
	app        *app
}

// service is a protected service of the test's own.
func service(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func fine(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "fine") }

// start runs a gateway in front of upstream, with more in its file, and stops it
// with the test.
func start(t *testing.T, upstream, more string) *gateway {
	t.Helper()
	g := &gateway{
		file: filepath.Join(t.TempDir(), "comporta.yaml"), log: newJournal(), access: newJournal(),
		client: &http.Client{Transport: &http.Transport{}, Timeout: patience},
		hup:    make(chan os.Signal, 1), again: make(chan os.Signal, 2), ended: make(chan struct{}),
	}
	g.write(t, upstream, more)
	var err error
	if g.app, err = newApp(g.file, loaderOf(g.file), slog.New(slog.NewJSONHandler(g.log, nil)), g.access); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	g.stop = stop
	go func() {
		defer close(g.ended)
		g.err = g.app.run(ctx, g.hup, g.again)
	}()
	t.Cleanup(func() {
		g.stop()
		select {
		case <-g.ended:
		case <-time.After(patience):
			t.Error("the gateway does not end")
		}
		g.client.CloseIdleConnections()
		if t.Failed() {
			t.Logf("the gateway said:\n%s", g.log)
		}
	})
	var serving struct{ Listen, Admin []string }
	g.log.await(t, "serving", &serving)
	g.url, g.admin = "http://"+serving.Listen[0], "http://"+serving.Admin[0]
	return g
}

func loaderOf(file string) loader {
	return func() (*config.Config, []config.Problem, error) { return config.Load(config.Input{File: file}) }
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// write writes the file in one step, as careful tools do. Its listeners are free
// ports unless more says otherwise. upstream is a list of addresses, or the whole
// section in braces.
func (g *gateway) write(t *testing.T, upstream, more string) {
	t.Helper()
	if !strings.HasPrefix(upstream, "{") {
		upstream = "{urls: [" + upstream + "]}"
	}
	text := "upstream: " + upstream + "\nadmin: {listen: 127.0.0.1:0}\n" + more + "\n"
	if !strings.Contains(more, "listen:") {
		text += "listen: 127.0.0.1:0\n"
	}
	if err := os.WriteFile(g.file+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(g.file+".new", g.file); err != nil {
		t.Fatal(err)
	}
}

// get returns status and body, or the error in place of the body.
func (g *gateway) get(url string) (status int, body string) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, err.Error()
	}
	res, err := g.client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err.Error()
	}
	return res.StatusCode, string(b)
}

func (g *gateway) mustServe(t *testing.T) {
	t.Helper()
	if status, body := g.get(g.url + "/"); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
}

// reload posts /-/reload and returns "" or all problems.
func (g *gateway) reload(t *testing.T) string {
	t.Helper()
	_, err := (&admin.Caller{URL: g.admin}).Call(t.Context(), http.MethodPost, "/-/reload", nil, nil)
	if err != nil {
		return err.Error()
	}
	return ""
}

func (g *gateway) status(t *testing.T) admin.Status {
	t.Helper()
	var s admin.Status
	if _, err := (&admin.Caller{URL: g.admin}).Call(t.Context(), http.MethodGet, "/api/v1/status", nil, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// metric returns the line of a metric without labels.
func (g *gateway) metric(t *testing.T, name string) string {
	t.Helper()
	_, text := g.get(g.admin + "/metrics")
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return "absent"
}

func (g *gateway) mustEnd(t *testing.T) error {
	t.Helper()
	select {
	case <-g.ended:
	case <-time.After(patience):
		t.Fatal("the gateway does not end")
	}
	return g.err
}

// journal collects the lines of a log, and lets a test wait for one.
type journal struct {
	mu    sync.Mutex
	text  bytes.Buffer
	fresh chan struct{} // closed at the next line
	read  int           // lines that await has passed
}

func newJournal() *journal { return &journal{fresh: make(chan struct{})} }

// Write adds a line.
func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	close(j.fresh)
	j.fresh = make(chan struct{})
	return j.text.Write(p)
}

// String returns all lines.
func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// await returns when a line with the message has come since the last await, and
// decodes it.
func (j *journal) await(t *testing.T, message string, into any) {
	t.Helper()
	deadline := time.After(patience)
	for {
		j.mu.Lock()
		lines, fresh := strings.Split(j.text.String(), "\n"), j.fresh
		j.mu.Unlock()
		for ; j.read < len(lines)-1; j.read++ {
			line := lines[j.read]
			if !strings.Contains(line, `"msg":"`+message) {
				continue
			}
			j.read++
			if into != nil {
				if err := json.Unmarshal([]byte(line), into); err != nil {
					t.Fatal(err)
				}
			}
			return
		}
		select {
		case <-fresh:
		case <-deadline:
			t.Fatalf("no line %q in\n%s", message, j)
		}
	}
}
