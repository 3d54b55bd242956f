package conformance

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
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

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == grpcCommand {
		os.Exit(grpcCase(os.Args[2:]))
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "comporta-conformance-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary = filepath.Join(dir, "comporta")
	build := exec.Command("go", "build", "-o", binary, "./cmd/comporta")
	build.Dir, build.Stdout, build.Stderr = "..", os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "building cmd/comporta:", err)
		return 1
	}
	return m.Run()
}

// gateway is a running `comporta serve`.
type gateway struct {
	addr  string // of the public listener
	admin string // of the admin listener
	cmd   *exec.Cmd
	done  chan struct{} // closed when the process has ended and err is set
	err   error
	log   output
}

// serve starts a gateway in front of an upstream with a configuration, and stops it
// when the test ends. It listens on free ports of loopback.
func serve(t *testing.T, upstream, text string) *gateway {
	t.Helper()
	file := filepath.Join(t.TempDir(), "comporta.yaml")
	if !strings.Contains(text, "listen:") {
		text += "listen: 127.0.0.1:0\n"
	}
	text += "access_log: {format: off}\nadmin: {listen: 127.0.0.1:0}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	g := &gateway{done: make(chan struct{})}
	g.cmd = exec.Command(binary, "serve", "-config", file, "-upstream", upstream)
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
			t.Logf("the gateway said:\n%s", g.log.String())
		}
	})
	eventually(t, "it serves", 15*time.Second, func() bool { return g.serving(t) })
	return g
}

// serving looks for the line in which the gateway says where it listens.
func (g *gateway) serving(t *testing.T) bool {
	t.Helper()
	select {
	case <-g.done:
		t.Fatalf("the gateway ended before it was ready: %v\n%s", g.err, g.log.String())
	default:
	}
	for line := range strings.Lines(g.log.String()) {
		var said struct {
			Msg    string   `json:"msg"`
			Listen []string `json:"listen"`
			Admin  []string `json:"admin"`
		}
		if strings.HasSuffix(line, "\n") && json.Unmarshal([]byte(line), &said) == nil && said.Msg == "serving" {
			g.addr, g.admin = said.Listen[0], said.Admin[0]
			return true
		}
	}
	return false
}

// stop sends SIGTERM, waits, and demands an orderly exit.
func (g *gateway) stop(t *testing.T) {
	t.Helper()
	if err := g.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Error(err)
	}
	select {
	case <-g.done:
	case <-time.After(20 * time.Second):
		_ = g.cmd.Process.Kill()
		<-g.done
		t.Error("the gateway did not end within 20 s of SIGTERM")
	}
	if g.err != nil {
		t.Errorf("the gateway ended with %v", g.err)
	}
}

// memory is what the gateway holds, in bytes.
func (g *gateway) memory(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", g.cmd.Process.Pid))
	if err != nil {
		t.Skipf("memory cannot be told here: %v", err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "VmRSS:" {
			n, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n << 10
		}
	}
	t.Fatal("/proc says nothing of VmRSS")
	return 0
}

// served asks for something on a connection of its own, as another caller would.
func (g *gateway) served(t *testing.T) time.Duration {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	start := time.Now()
	res, err := client.Get("http://" + g.addr + "/bystander")
	if err != nil {
		t.Fatalf("somebody else: %v", err)
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("somebody else: %s, %v", res.Status, err)
	}
	return time.Since(start)
}

// answering is a service that reads what it is sent and answers ok.
func answering(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "ok")
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// certificate writes a certificate for loopback and returns its files as a
// listener's section of TLS.
func certificate(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	return fmt.Sprintf("{cert_file: %q, key_file: %q}", write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", private))
}

// eventually returns when ok says so, and fails the test when it does not in time.
func eventually(t *testing.T, what string, within time.Duration, ok func() bool) {
	t.Helper()
	deadline := time.After(within)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("after %v still not: %s", within, what)
		}
	}
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
