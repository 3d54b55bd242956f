//go:build integration

package test

import (
	"cmp"
	"net"
	"os"
	"os/exec"
	"slices"
	"testing"
)

// redisProgram is the server that tests start for themselves; see test/services.
var redisProgram = cmp.Or(os.Getenv("COMPORTA_TEST_REDIS_SERVER"), "redis-server")

// redisServer is a Redis of one test, which may be killed. It keeps nothing.
type redisServer struct {
	addr, dir string
	more      []string // arguments
	cmd       *exec.Cmd
}

func startRedis(t *testing.T, more ...string) *redisServer {
	t.Helper()
	if _, err := exec.LookPath(redisProgram); err != nil {
		t.Skipf("%v: run `make integration`", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &redisServer{addr: l.Addr().String(), dir: t.TempDir(), more: more}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	r.start(t)
	t.Cleanup(r.kill)
	return r
}

func (r *redisServer) start(t *testing.T) {
	t.Helper()
	_, port, err := net.SplitHostPort(r.addr)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"--port", port}
	if slices.Contains(r.more, "--tls-cert-file") {
		args = []string{"--port", "0", "--tls-port", port}
	}
	args = append(args, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", r.dir)
	r.cmd = exec.Command(redisProgram, append(args, r.more...)...)
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "redis-server answers", func() bool {
		c, err := net.Dial("tcp", r.addr)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

func (r *redisServer) kill() {
	_, _ = r.cmd.Process.Kill(), r.cmd.Wait() // it may have ended
}
