package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// stage is where the rows are measured: the service, and all servers that were
// started.
type stage struct {
	dir     string // temporary
	cpus    processors
	service *process
	load    *load
	servers []*process
	held    []io.Closer
	full    func(context.Context) (*process, error) // the full house, once
	refusal *refusal                                // of the full house
}

// newStage checks what a run needs and starts the service. Whatever the error,
// the stage is to be cleared.
func newStage(ctx context.Context) (*stage, error) {
	s := &stage{}
	var err error
	if s.cpus, err = choose(); err != nil {
		return s, err
	}
	if err := needed("taskset", "wrk", "nginx", "haproxy"); err != nil {
		return s, err
	}
	if s.dir, err = os.MkdirTemp("", "comporta-bench-"); err != nil {
		return s, err
	}
	if s.load, err = newLoad(s.cpus.load, s.dir); err != nil {
		return s, err
	}
	s.service, err = s.role(ctx, s.cpus.load, roleService)
	var once sync.Once
	var full *process
	var failed error
	s.full = func(ctx context.Context) (*process, error) {
		once.Do(func() {
			if full, failed = s.gateway(ctx, "full", fullCapacity, fullCapacity, ""); failed == nil {
				s.refusal, failed = refusalOf(ctx, full)
			}
		})
		return full, failed
	}
	return s, err
}

// clear ends everything.
func (s *stage) clear() {
	for _, c := range s.held {
		_ = c.Close()
	}
	var wg sync.WaitGroup
	for _, p := range append(s.servers, s.service) {
		if p != nil {
			wg.Go(p.stop)
		}
	}
	wg.Wait()
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}

// needed looks for programs, also where systems keep those of administrators.
func needed(programs ...string) error {
	if err := os.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/usr/local/sbin"); err != nil {
		return err
	}
	var missing []string
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			missing = append(missing, p)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s missing: `test/services bench` installs them", strings.Join(missing, ", "))
	}
	return nil
}

// build makes a program out of a package, in a folder below a module.
func (s *stage) build(ctx context.Context, module, folder, name, pkg string) error {
	binary := filepath.Join(s.dir, name)
	if _, err := os.Stat(binary); err == nil {
		return nil
	}
	root, err := output(exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module)) //nolint:gosec // our own arguments
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-o", binary, pkg) //nolint:gosec // our own arguments
	cmd.Dir = filepath.Join(strings.TrimSpace(root), folder)
	_, err = output(cmd)
	return err
}

// output runs a command; the error holds what it complained about.
func output(cmd *exec.Cmd) (string, error) {
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		err = errors.Join(fmt.Errorf("%s: %w", cmd, err), errors.New(complaints.String()))
	}
	return string(out), err
}
