//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sqlitestore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/comporta/comporta/store"
)

// childEnv names the file to a child process of these tests.
const childEnv = "COMPORTA_TEST_SQLITESTORE_CHILD"

// TestMain lets the test binary be the process that is killed.
func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		os.Exit(child(path))
	}
	m.Run()
}

// child claims and finishes until it is killed, and prints what it was told, each
// line after the call returned.
func child(path string) int {
	s, err := Open(context.Background(), Config{Path: path})
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	fmt.Println("open")
	var mu sync.Mutex
	say := func(words ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(words...)
	}
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for i := 0; ; i++ {
				key := fmt.Sprintf("%d.%d.%d", os.Getpid(), g, i)
				c := claimOf(key)
				got, err := s.Claim(context.Background(), time.Now(), c)
				if err != nil || !got.Granted {
					say("error", got, err)
					return
				}
				say("claimed", key)
				if i%3 == 0 {
					continue
				}
				if err := s.Finish(context.Background(), time.Now(), store.Hold{Name: c.Name, Fence: c.Fence}, answerOf(key)); err != nil {
					say("error", err)
					return
				}
				say("finished", key)
			}
		})
	}
	wg.Wait()
	return 1
}

// spawn starts a child and waits until it has the file.
func spawn(t *testing.T, path string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childEnv+"="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() }) // it is dead already
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "open" {
		t.Fatalf("the child says %q", lines.Text())
	}
	return cmd, lines
}

// cases/events.md B11, of one engine: SIGKILL at any instant loses nothing that a
// caller was told, and leaves a sound file.
func TestCase_Events_B11_Killed(t *testing.T) {
	path := file(t)
	told := map[string]string{}
	for range 6 {
		cmd, lines := spawn(t, path)
		for left := 50 + rand.IntN(500); lines.Scan(); left-- {
			verb, key, _ := strings.Cut(lines.Text(), " ")
			if verb == "error" {
				t.Fatal(key)
			}
			told[key] = verb
			if left == 0 {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = cmd.Wait() // it was killed
		s := open(t, Config{Path: path})
		healthy(t, s)
		for key, verb := range told {
			r, err := s.Look(t.Context(), time.Now(), nameOf(key))
			switch {
			case err != nil:
				t.Fatalf("%s was %s: %v", key, verb, err)
			case verb == "finished" && (r.State != store.Finished || string(r.Answer.Body) != key):
				t.Fatalf("%s was %s: %+v", key, verb, r)
			}
		}
		granted(t, s, fmt.Sprint("after ", len(told)))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d keys in six processes", len(told))
}

// The lock is another process's, says whose, and ends with it.
func TestASecondProcessIsRefused(t *testing.T) {
	path := file(t)
	cmd, lines := spawn(t, path)
	_, err := Open(t.Context(), Config{Path: path})
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), fmt.Sprintf("process %d on ", cmd.Process.Pid)) {
		t.Errorf("%v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() { // to its end
	}
	_ = cmd.Wait() // it was killed
	granted(t, open(t, Config{Path: path}), "k")
}

// A log that was cut anywhere, as a loss of power cuts it, leaves what was
// committed before the cut, and nothing by halves.
func TestTornLog(t *testing.T) {
	path := file(t)
	cmd, lines := spawn(t, path)
	for range 200 {
		lines.Scan()
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() { // to its end
	}
	_ = cmd.Wait() // it was killed
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	records := -1
	for length := len(log); length > 0; length -= 1 + len(log)/40 {
		torn := file(t)
		write(t, torn, string(whole), 0o600)
		write(t, torn+"-wal", string(log[:length]), 0o600)
		s, err := Open(t.Context(), Config{Path: torn})
		if errors.Is(err, ErrForeign) || errors.Is(err, ErrCorrupt) {
			t.Fatalf("cut at %d of %d: %v", length, len(log), err)
		}
		if err != nil {
			t.Fatal(err)
		}
		healthy(t, s)
		n := 0
		for cursor := ""; ; {
			p, err := s.List(t.Context(), time.Now(), store.Query{Limit: store.MaxPage, Cursor: cursor})
			if err != nil {
				t.Fatal(err)
			}
			n += len(p.Records)
			if cursor = p.Next; cursor == "" {
				break
			}
		}
		if records >= 0 && n > records {
			t.Errorf("cut at %d: %d records, %d before", length, n, records)
		}
		records = n
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
