//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// checked runs `comporta check` and returns its exit code and what it wrote.
func checked(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = runCheck(t.Context(), args, &out, &err)
	return code, out.String(), err.String()
}

// self is a command line that runs TestCheckedClient in a process of its own.
func self(t *testing.T, calls string) []string {
	t.Helper()
	t.Setenv("COMPORTA_TEST_CHECK_CALLS", calls)
	t.Setenv("GORACE", "atexit_sleep_ms=0") // else each child takes a second to end
	return []string{"--", os.Args[0], "-test.run=^TestCheckedClient$"}
}

// TestCheckedClient is the client that the other tests check, in Go.
func TestCheckedClient(t *testing.T) {
	url := os.Getenv("COMPORTA_CHECK_URL")
	if url == "" {
		t.Skip("not a child")
	}
	if !strings.HasSuffix(url, "/"+os.Getenv("COMPORTA_CHECK_SCENARIO")) {
		t.Fatalf("%s is not %s", url, os.Getenv("COMPORTA_CHECK_SCENARIO"))
	}
	calls := 0
	fmt.Sscan(os.Getenv("COMPORTA_TEST_CHECK_CALLS"), &calls)
	client := http.Client{Timeout: 100 * time.Millisecond}
	for range calls {
		resp, err := client.Get(url + "/orders")
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
	}
	client.CloseIdleConnections()
}

func TestCheckAGoodClient(t *testing.T) {
	code, stdout, stderr := checked(t, append([]string{"client"}, self(t, "1")...)...)
	if code != exitFine || stderr != "" {
		t.Fatalf("exit %d\n%s%s", code, stdout, stderr)
	}
	for _, want := range []string{"unavailable           1     5", "post-without-key      1     5", "not exercised\n", "9 of 9 scenarios passed, 1 not exercised\n"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
}

func TestCheckABadClient(t *testing.T) {
	code, stdout, stderr := checked(t, append([]string{"client", "-json"}, self(t, "6")...)...)
	if code != exitFailed || stderr != "" {
		t.Fatalf("exit %d\n%s%s", code, stdout, stderr)
	}
	var result checkResult
	if err := json.Unmarshal([]byte(stdout), &result); err != nil {
		t.Fatalf("%v\n%s", err, stdout)
	}
	if result.Passed || result.Exercised != 9 || len(result.Scenarios) != 10 {
		t.Errorf("%+v", result)
	}
	for _, row := range result.Scenarios {
		failed := row.Scenario != "post-without-key" // the one that was not exercised
		if row.Exit != "exit status 0" || (row.State == "failed") != failed || failed && (row.Calls != 6 || len(row.Problems) == 0) {
			t.Errorf("%+v", row)
		}
	}
}

// A program that does not end is ended, with everything that it started, and
// what it had done until then counts.
func TestCheckEndsTheWholeGroup(t *testing.T) {
	needCurl(t)
	pids := t.TempDir() + "/pids"
	script := `curl -s "$COMPORTA_CHECK_URL/x" >/dev/null; sleep 600 & echo $! >>` + pids + `; trap '' TERM; wait; wait`
	began := time.Now()
	code, stdout, stderr := checked(t, "client", "-limit", "300ms", "--", "sh", "-c", script)
	if code != exitFine || stderr != "" {
		t.Fatalf("exit %d\n%s%s", code, stdout, stderr)
	}
	if d := time.Since(began); d > 12*time.Second {
		t.Errorf("ten runs of 300 ms took %v", d)
	}
	if !strings.Contains(stdout, "beyond-deadline: passed\n  the server     503 with Retry-After: 60\n  worth knowing  still waiting at the limit") {
		t.Errorf("no note on waiting:\n%s", stdout)
	}
	list, err := os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	for field := range strings.FieldsSeq(string(list)) {
		pid := 0
		fmt.Sscan(field, &pid)
		if !gone(pid) {
			t.Errorf("process %d lives on", pid)
		}
	}
}

func needCurl(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Fatalf("%v: run `test/services programs`", err)
	}
}

// gone waits for a killed process to disappear; a zombie that nobody collects
// counts as gone.
func gone(pid int) bool {
	for range 100 {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil && syscall.Kill(pid, 0) != nil || bytes.Contains(stat, []byte(") Z ")) {
			return true
		}
		time.Sleep(10 * time.Millisecond) // another process's end
	}
	return false
}

// Two layers of three tries each, neither of which is much.
func TestCheckALoopInALoop(t *testing.T) {
	needCurl(t)
	code, stdout, stderr := checked(t, "client", "--", "sh", "-c",
		`[ "$COMPORTA_CHECK_SCENARIO" = nested ] && for i in 1 2 3; do for j in 1 2 3; do curl -s "$COMPORTA_CHECK_URL/x"; done; done`)
	if code != exitFailed || !strings.Contains(stdout, "this client    9 calls, at most 5\n") || !strings.Contains(stdout, "a good client  a few calls") {
		t.Errorf("exit %d\n%s%s", code, stdout, stderr)
	}
}

func TestCheckMisuse(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "say whom to check"},
		{[]string{"client"}, "say whom to check"},
		{[]string{"server", "--", "true"}, "say whom to check"},
		{[]string{"client", "-limit", "0s", "--", "true"}, "-limit 0s is not within"},
		{[]string{"client", "-limit", "soon", "--", "true"}, "invalid value"},
		{[]string{"client", "--", "./no-such-program"}, "CMD cannot start: "},
		{[]string{"client", "--", "sh", "-c", "echo I forgot to call >&2"}, "CMD made no call to $COMPORTA_CHECK_URL"},
		{[]string{"client", "--", "sh", "-c", "echo I forgot to call >&2"}, "ended with exit status 0, and wrote:\nI forgot to call"},
		{[]string{"client", "--", "sh", "-c", "exit 3"}, "ended with exit status 3\n"},
	} {
		code, stdout, stderr := checked(t, c.args...)
		if code != exitUsage || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: exit %d\n%s%s", c.args, code, stdout, stderr)
		}
	}
}

// Ctrl-C says how far it had come.
func TestCheckInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	time.AfterFunc(300*time.Millisecond, cancel)
	var out, err bytes.Buffer
	code := runCheck(ctx, []string{"client", "--", "sh", "-c", "sleep 600"}, &out, &err)
	if code != exitFailed || err.String() != "comporta check: interrupted after 0 of 10 scenarios\n" {
		t.Errorf("exit %d: %s", code, err.String())
	}
}

func TestCheckAClientThatDropsThePath(t *testing.T) {
	needCurl(t)
	code, _, stderr := checked(t, "client", "--", "sh", "-c", `curl -s "${COMPORTA_CHECK_URL%/*}/orders"`)
	if code != exitUsage || !strings.Contains(stderr, "it called /orders instead") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

func TestTailWriter(t *testing.T) {
	var w tailWriter
	for i := range 1000 {
		fmt.Fprintf(&w, "line %d\n", i)
	}
	if len(w) != checkTail || !strings.HasSuffix(string(w), "line 999\n") {
		t.Errorf("%d bytes, %q", len(w), w[len(w)-20:])
	}
}
