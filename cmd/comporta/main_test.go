package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "rewrite the expected output in testdata/*.txtar")

func TestMain(m *testing.M) {
	testscript.Main(noLeaks{m}, map[string]func(){"comporta": main})
}

// noLeaks fails the run when goroutines outlive all tests.
type noLeaks struct{ *testing.M }

func (m noLeaks) Run() int {
	code := m.M.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}

// The scripts run the command as a process of its own.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("TZ", "UTC")
			e.Setenv("GORACE", "atexit_sleep_ms=0") // else each process takes a second to end
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits": exits,
			"json":  oneJSON,
		},
	})
}

// exits N CMD… runs a command that must end with the exit code N.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		ended, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = ended.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d\n%s%s", got, want, ts.ReadFile("stdout"), ts.ReadFile("stderr"))
	}
}

// json FILE demands that the file holds exactly one JSON document.
func oneJSON(ts *testscript.TestScript, _ bool, args []string) {
	if err := oneDocument([]byte(ts.ReadFile(args[0]))); err != nil {
		ts.Fatalf("%s: %v", args[0], err)
	}
}

func oneDocument(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	var v any
	if err := d.Decode(&v); err != nil {
		return fmt.Errorf("no JSON document: %w", err)
	}
	if err := d.Decode(&v); !errors.Is(err, io.EOF) {
		return errors.New("more than one JSON document")
	}
	return nil
}
