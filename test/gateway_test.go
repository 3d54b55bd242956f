//go:build integration

package test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// binary is the path of the built `comporta`.
var binary string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if os.Getenv(envState) != "" {
		fmt.Fprintln(os.Stderr, beChild())
		return 1
	}
	dir, err := os.MkdirTemp("", "comporta-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary = filepath.Join(dir, "comporta")
	build := exec.Command("go", "build", "-race", "-o", binary, "../cmd/comporta")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "building cmd/comporta:", err)
		return 1
	}
	return m.Run()
}

// service returns the address that test/services exported under a name.
func service(t *testing.T, name string) string {
	t.Helper()
	url := os.Getenv(name)
	if url == "" {
		t.Skipf("%s is not set: run `make integration`", name)
	}
	return url
}

// gateway is a running `comporta serve`.
type gateway struct {
	url   string // of the public listener
	admin string // of the admin listener
	file  string // of its configuration; empty: none

	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended and err is set
	err  error
	log  output
}

// serve starts `comporta serve` with the given arguments, on ports that are free,
// waits until it says that it serves, and stops it when the test ends.
func serve(t *testing.T, args ...string) *gateway {
	t.Helper()
	g := &gateway{done: make(chan struct{})}
	args = append([]string{"serve", "-listen", "127.0.0.1:0", "-admin", "127.0.0.1:0"}, args...)
	g.cmd = exec.Command(binary, args...)
	g.cmd.Dir = t.TempDir()
	g.cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0") // else it takes a second to end
	g.cmd.Stdout, g.cmd.Stderr = &g.log, &g.log
	if err := g.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		g.err = g.cmd.Wait()
		close(g.done)
	}()
	t.Cleanup(func() {
		g.stop(t)
		if t.Failed() {
			t.Logf("comporta %q said:\n%s", args, g.log.String())
		}
	})
	g.await(t)
	return g
}

// configured starts a gateway with a file, in front of nginx.
func configured(t *testing.T, text string) *gateway {
	t.Helper()
	file := filepath.Join(t.TempDir(), "comporta.yaml")
	write(t, file, text)
	g := serve(t, "-config", file, "-upstream", service(t, "COMPORTA_TEST_NGINX_URL"))
	g.file = file
	return g
}

// write writes a file in one step, as careful tools do.
func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

// hold takes n permits, until release is called.
func (g *gateway) hold(t *testing.T, n int) (release func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	bodies := make([]io.Closer, n)
	for i := range n {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.url+fmt.Sprintf("/hold?%d", i), http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		bodies[i] = res.Body
		if res.StatusCode != http.StatusOK {
			t.Fatalf("/hold: %s, %s", res.Status, res.Header.Get("Comporta-Decision"))
		}
	}
	return func() {
		cancel()
		for _, b := range bodies {
			_ = b.Close()
		}
	}
}

// metric returns the value of a metric, with its labels as /metrics writes them.
func (g *gateway) metric(t *testing.T, name string) float64 {
	t.Helper()
	for line := range strings.Lines(curl(t, "-f", g.admin+"/metrics")) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

// eventually returns when ok says so, and fails the test when it never does.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(15 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("after 15 s still not: %s", what)
		}
	}
}

// await returns when the gateway says that it serves, and learns where.
func (g *gateway) await(t *testing.T) {
	t.Helper()
	eventually(t, "it serves", func() bool {
		select {
		case <-g.done:
			t.Fatalf("the gateway ended before it was ready: %v", g.err)
		default:
		}
		for line := range strings.Lines(g.log.String()) {
			var said struct {
				Msg    string   `json:"msg"`
				Listen []string `json:"listen"`
				Admin  []string `json:"admin"`
			}
			if strings.HasSuffix(line, "\n") && json.Unmarshal([]byte(line), &said) == nil && said.Msg == "serving" {
				g.url, g.admin = "http://"+said.Listen[0], "http://"+said.Admin[0]
				return true
			}
		}
		return false
	})
}

// stop sends SIGTERM, waits, and demands an orderly exit. Safe to call twice.
func (g *gateway) stop(t *testing.T) {
	t.Helper()
	if err := g.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Error(err)
	}
	select {
	case <-g.done:
	case <-time.After(15 * time.Second):
		_ = g.cmd.Process.Kill()
		<-g.done
		t.Error("the gateway did not end within 15 s of SIGTERM")
	}
	if g.err != nil {
		t.Errorf("the gateway ended with %v", g.err)
	}
}

// get asks the gateway and returns the answer with its body.
func (g *gateway) get(t *testing.T, path string, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.url+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

// curl runs the command-line client, an implementation of HTTP that is not ours.
func curl(t *testing.T, args ...string) string {
	t.Helper()
	path, err := exec.LookPath("curl")
	if err != nil {
		t.Fatalf("%v: run `test/services programs`", err)
	}
	out, err := exec.CommandContext(t.Context(), path, append([]string{"-sS", "--max-time", "20"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("curl %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// output collects what a process writes while others may read it.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}
