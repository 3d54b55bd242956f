package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"
)

// redisServer is a Redis of this run, which keeps nothing.
type redisServer struct {
	addr, directory string
	cmd             *exec.Cmd
}

func startRedis(ctx context.Context) (*redisServer, error) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return nil, fmt.Errorf("%w: install redis-server", err)
	}
	addr, port, err := freePort()
	if err != nil {
		return nil, err
	}
	directory, err := os.MkdirTemp("", "bench-redis-")
	if err != nil {
		return nil, err
	}
	s := &redisServer{addr: addr, directory: directory}
	s.cmd = exec.CommandContext(ctx, "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", directory) //nolint:gosec // both are of our making
	if err := s.cmd.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(directory))
	}
	if err := s.answers(); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// freePort is one on which nothing listens. Another process may take it first:
// then the server does not answer, and the run is to be started again.
func freePort() (addr, port string, err error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", "", err
	}
	addr = l.Addr().String()
	_, port, err = net.SplitHostPort(addr)
	return addr, port, errors.Join(err, l.Close())
}

func (s *redisServer) answers() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.addr)
		if err == nil {
			return c.Close()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("redis-server does not answer: %w", err)
		}
	}
}

func (s *redisServer) stop() {
	_, _ = s.cmd.Process.Kill(), s.cmd.Wait() // it may have ended
	_ = os.RemoveAll(s.directory)
}
