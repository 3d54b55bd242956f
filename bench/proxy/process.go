package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a server under measurement, with all its children.
type process struct {
	name string
	addr string // where it listens
	pids []int  // its own first
	cmd  *exec.Cmd
	said bytes.Buffer
	done chan struct{} // closed when the process has ended
}

// startTime is how long a server may take to listen.
const startTime = 10 * time.Second

// start runs a server on one processor, on a free port of loopback that command
// is told, and returns when it listens.
func start(ctx context.Context, cpu int, name string, command func(addr string) ([]string, error)) (*process, error) {
	var err error
	for range 3 { // somebody else may take the port before the server does
		var p *process
		if p, err = startOnce(ctx, cpu, name, command); err == nil {
			return p, nil
		}
	}
	return nil, err
}

func startOnce(ctx context.Context, cpu int, name string, command func(addr string) ([]string, error)) (*process, error) {
	addr, err := freeAddr(ctx)
	if err != nil {
		return nil, err
	}
	args, err := command(addr)
	if err != nil {
		return nil, err
	}
	p := &process{name: name, addr: addr, done: make(chan struct{})}
	p.cmd = exec.CommandContext(ctx, "taskset", append([]string{"-c", strconv.Itoa(cpu)}, args...)...) //nolint:gosec // our own arguments
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = startTime
	p.cmd.Stdout, p.cmd.Stderr = &p.said, &p.said
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // whoever asks reads what it said
	}()
	if err := p.listens(ctx); err != nil {
		p.stop()
		return nil, fmt.Errorf("%s: %w\n%s", name, err, &p.said)
	}
	p.pids, err = family(p.cmd.Process.Pid)
	return p, err
}

// freeAddr is an address of loopback on which nothing listens.
func freeAddr(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func (p *process) listens(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if conn, err := new(net.Dialer).DialContext(ctx, "tcp", p.addr); err == nil {
			return conn.Close()
		}
		select {
		case <-p.done:
			return errors.New("it ended instead of listening")
		case <-ctx.Done():
			return fmt.Errorf("it does not listen on %s: %w", p.addr, ctx.Err())
		case <-tick.C:
		}
	}
}

// stop ends the process and waits until it is gone.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
	select {
	case <-p.done:
	case <-time.After(startTime):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// cpu is what the process and its children have used so far.
func (p *process) cpu() (total time.Duration, err error) {
	for _, pid := range p.pids {
		used, err := cpuTime(pid)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", p.name, err)
		}
		total += used
	}
	return total, nil
}

// rss is the memory that the process and its children hold, in bytes.
func (p *process) rss() (total int64) {
	for _, pid := range p.pids {
		total += statusKB(pid, "VmRSS:") << 10
	}
	return total
}

// statusKB reads a figure out of /proc/PID/status; 0 if it is not there.
func statusKB(pid int, key string) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == key {
			n, _ := strconv.ParseInt(f[1], 10, 64) // the kernel wrote it
			return n
		}
	}
	return 0
}

// family is a process and all that descend from it. Servers fork before they
// listen, or at once after: family is asked again until it stays the same.
func family(pid int) ([]int, error) {
	for before := 0; ; {
		parents, err := parents()
		if err != nil {
			return nil, err
		}
		all := []int{pid}
		for i := 0; i < len(all); i++ {
			for child, parent := range parents {
				if parent == all[i] {
					all = append(all, child)
				}
			}
		}
		if len(all) == before {
			return all, nil
		}
		before = len(all)
		<-time.After(100 * time.Millisecond)
	}
}

// parents tells the parent of each process.
func parents() (map[int]int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	all := make(map[int]int, len(files))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		// The name, in parentheses, may hold anything.
		head, tail, _ := bytes.Cut(text, []byte(" "))
		rest := bytes.Fields(tail[bytes.LastIndexByte(tail, ')')+1:])
		child, err1 := strconv.Atoi(string(head))
		if len(rest) < 2 || err1 != nil {
			continue
		}
		if parent, err := strconv.Atoi(string(rest[1])); err == nil {
			all[child] = parent
		}
	}
	return all, nil
}
