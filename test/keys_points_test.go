//go:build integration

package test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate"
	"github.com/comporta/comporta/gate/idempotency"
	"github.com/comporta/comporta/gate/overload"
	"github.com/comporta/comporta/proxy"
	"github.com/comporta/comporta/store"
)

// The environment of a child that kills itself: this test's own binary, which then
// is a gateway whose store ends the process at a named point.
const (
	envPoint    = "COMPORTA_TEST_POINT"
	envEngine   = "COMPORTA_TEST_POINT_ENGINE"
	envState    = "COMPORTA_TEST_POINT_STATE"
	envUpstream = "COMPORTA_TEST_POINT_UPSTREAM"
)

// suicidal is a store that ends its process at a point in the life of a key.
type suicidal struct {
	store.Keys

	point  string
	victim atomic.Pointer[store.Name]
}

func (s *suicidal) at(point string, n store.Name) {
	if v := s.victim.Load(); v != nil && *v == n && s.point == point {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // it comes at once, and nothing may happen until then
	}
}

func (s *suicidal) Claim(ctx context.Context, now time.Time, c store.Claim) (store.Claimed, error) {
	if strings.HasSuffix(c.Label.Key, "victim") {
		s.victim.Store(&c.Name)
	}
	s.at("before claim", c.Name)
	got, err := s.Keys.Claim(ctx, now, c)
	s.at("after claim", c.Name)
	return got, err
}

func (s *suicidal) Finish(ctx context.Context, now time.Time, h store.Hold, f store.Finish) error {
	s.at("before finish", h.Name)
	err := s.Keys.Finish(ctx, now, h, f)
	s.at("after finish", h.Name)
	return err
}

func (s *suicidal) Release(ctx context.Context, now time.Time, h store.Hold, finished bool) error {
	s.at("before release", h.Name)
	err := s.Keys.Release(ctx, now, h, finished)
	s.at("after release", h.Name)
	return err
}

// beChild serves as the child until it is killed.
func beChild() error {
	ctx := context.Background()
	engine, err := place{os.Getenv(envEngine), os.Getenv(envState)}.open(ctx)
	if err != nil {
		return err
	}
	keeper, err := idempotency.New(idempotency.Config{Store: &suicidal{Keys: engine, point: os.Getenv(envPoint)}, Lease: time.Second})
	if err != nil {
		return err
	}
	if err := keeper.Load(ctx); err != nil {
		return err
	}
	g, err := gate.New(gate.Config{Idempotency: gate.Idempotency{Keeper: keeper, Other: &idempotency.Policy{}}}, nil)
	if err != nil {
		return err
	}
	upstream, err := url.Parse(os.Getenv(envUpstream))
	if err != nil {
		return err
	}
	p, err := proxy.New(proxy.Config{
		Upstreams: []*url.URL{upstream},
		Forward:   func(in *http.Request, out http.Header) { g.WriteForwarded(in, out) },
		Fail: func(w http.ResponseWriter, r *http.Request, reason comporta.Reason, _ error) {
			overload.Refuse(w, r, &overload.Refusal{Reason: reason})
		},
	})
	if err != nil {
		return err
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("http://" + tcp.Addr().String())
	return http.Serve(tcp, g.Wrap(p))
}

// child starts one that dies at a point; "" never does.
func child(t *testing.T, point string, p place, upstream string) (address string, cmd *exec.Cmd) {
	t.Helper()
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envPoint+"="+point, envEngine+"="+p.engine, envState+"="+p.at, envUpstream+"="+upstream)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(cmd) })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the child does not serve: %v", err)
	}
	return strings.TrimSpace(line), cmd
}

func end(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // killed, as it was meant to be
}

// target is a service that has its gateway killed at points of the call, and
// counts what it carries out.
type target struct {
	url   string
	tcp   net.Listener
	kill  func()
	at    string
	busy  atomic.Bool // the next request is refused with 503
	times atomic.Int64
}

func newTarget(t *testing.T) *target {
	t.Helper()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &target{url: "http://" + tcp.Addr().String(), tcp: tcp, kill: func() {}}
	server := &http.Server{Handler: http.HandlerFunc(g.serve)}
	server.SetKeepAlivesEnabled(false)
	go func() { _ = server.Serve(g) }()
	t.Cleanup(func() { _ = server.Close() })
	return g
}

// Accept implements net.Listener: a connection is there, and nothing was said yet.
func (g *target) Accept() (net.Conn, error) {
	c, err := g.tcp.Accept()
	if err == nil && g.at == "call begins" {
		g.kill()
		_ = c.Close() // what it may have sent is not carried out
		return g.tcp.Accept()
	}
	return c, err
}

func (g *target) Close() error   { return g.tcp.Close() }
func (g *target) Addr() net.Addr { return g.tcp.Addr() }

func (g *target) serve(w http.ResponseWriter, r *http.Request) {
	if g.busy.CompareAndSwap(true, false) {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	_, _ = io.Copy(io.Discard, r.Body)
	if g.at == "call arrives" {
		g.times.Add(1)
		g.kill()
		return
	}
	n := g.times.Add(1)
	w.Header().Set("Content-Length", "6")
	w.WriteHeader(http.StatusCreated)
	_, _ = fmt.Fprintf(w, "time")
	if g.at == "half an answer" {
		_ = http.NewResponseController(w).Flush()
		<-time.After(20 * time.Millisecond)
		g.kill()
	}
	_, _ = fmt.Fprintf(w, " %d", n)
}

// At every named point around claim, call and finish: what is told is true, and
// nothing is carried out twice.
func TestCase_Events_B11_KilledAtNamedPoints(t *testing.T) {
	onEngines(t, func(t *testing.T, p place, key func(string) string) {
		for _, tc := range []struct {
			point string
			busy  bool
			want  string // what the client is told in the end
			times int64  // how often it was carried out
		}{
			{"before claim", false, "created", 1},
			{"after claim", false, "unknown", 0},
			{"call begins", false, "unknown", 0},
			{"call arrives", false, "unknown", 1},
			{"half an answer", false, "unknown", 1},
			{"before finish", false, "unknown", 1},
			{"after finish", false, "replayed", 1},
			{"before release", true, "unknown", 0},
			{"after release", true, "created", 1},
		} {
			t.Run(tc.point, func(t *testing.T) {
				k := key(strings.ReplaceAll(tc.point, " ", "-") + "-victim")
				service := newTarget(t)
				service.busy.Store(tc.busy)
				address, cmd := child(t, tc.point, p, service.url)
				service.at, service.kill = tc.point, func() { _ = cmd.Process.Kill() }
				first := post(t.Context(), address+"/orders", "a", k, "apple")
				if first.err == nil && (first.status < 400 || first.status == 409) {
					t.Errorf("the one who was cut off is told %+v", first)
				}
				_ = cmd.Wait() // it has died at the point
				service.at = ""

				address, cmd = child(t, "", p, service.url)
				s := post(t.Context(), address+"/orders", "a", k, "apple")
				for s.code == "idempotency_in_progress" {
					pause(t, 100*time.Millisecond)
					s = post(t.Context(), address+"/orders", "a", k, "apple")
				}
				got := s.code
				switch {
				case s.status == http.StatusCreated && s.replayed:
					got = "replayed"
				case s.status == http.StatusCreated:
					got = "created"
				case s.code == "idempotency_outcome_unknown":
					got = "unknown"
				}
				if n := service.times.Load(); got != tc.want || n != tc.times {
					t.Errorf("told %s, carried out %d times; want %s, %d: %+v", got, n, tc.want, tc.times, s)
				}
				end(cmd)
			})
		}
	})
}
