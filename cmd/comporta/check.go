package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/comporta/comporta/client/clienttest"
)

const (
	leastCheckLimit = 100 * time.Millisecond
	mostCheckLimit  = time.Minute
	// checkGrace is how long a program that is asked to end may take.
	checkGrace = 250 * time.Millisecond
	// checkTail is how much of a program's output is kept, in bytes.
	checkTail = 2 << 10
)

// checkRow is one scenario of what -json prints.
type checkRow struct {
	Scenario    string   `json:"scenario"`
	Story       string   `json:"story"`
	Good        string   `json:"good"`
	State       string   `json:"state"` // passed | failed | not exercised
	Calls       int      `json:"calls"`
	MostCalls   int      `json:"most_calls"`
	Connections int      `json:"connections"`
	ElapsedMs   int64    `json:"elapsed_ms"`
	Ended       bool     `json:"ended_by_limit"`
	Exit        string   `json:"exit"` // how CMD ended, in the system's words
	Problems    []string `json:"problems,omitempty"`
	Notes       []string `json:"notes,omitempty"`
}

// checkResult is what -json prints.
type checkResult struct {
	Passed    bool       `json:"passed"`
	Exercised int        `json:"exercised"`
	Scenarios []checkRow `json:"scenarios"`

	stray string     // a path outside the scenarios that was called
	last  programEnd // of the last run
}

// runCheck is `comporta check client`: it runs a program once per scenario of
// package clienttest, and fails if it insists too much.
func runCheck(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	f := newFlags("check", stdout, stderr)
	limit := f.Duration("limit", clienttest.Limit, fmt.Sprintf("after which a run of CMD is ended, %v to %v", leastCheckLimit, mostCheckLimit))
	asJSON := f.Bool("json", false, "print one JSON document instead of the table")
	rest, code, done := f.parse(args)
	if done {
		return code
	}
	if len(rest) < 2 || rest[0] != "client" {
		return f.misused("say whom to check: client -- CMD…, where CMD makes one operation against $COMPORTA_CHECK_URL")
	}
	if *limit < leastCheckLimit || *limit > mostCheckLimit {
		return f.misused("-limit %v is not within %v and %v", *limit, leastCheckLimit, mostCheckLimit)
	}
	table := stdout
	if *asJSON {
		table = io.Discard
	}
	result, err := checkClient(ctx, rest[1:], *limit, table)
	if err != nil {
		if ctx.Err() != nil {
			say(stderr, "comporta check: interrupted after %d of %d scenarios\n", len(result.Scenarios), len(clienttest.Scenarios()))
			return exitFailed
		}
		say(stderr, "comporta check: %v\n", err)
		if errors.Is(err, errNoStart) {
			return exitUsage
		}
		return exitFailed
	}
	if result.Exercised == 0 {
		return result.silent(f)
	}
	if *asJSON {
		if code := printJSON(f, result); code != exitFine {
			return code
		}
	} else {
		result.summary(stdout)
	}
	if !result.Passed {
		return exitFailed
	}
	return exitFine
}

// checkClient plays the scenarios to the program, one after the other, and
// prints a row when each ends. With an error it returns what it had until then.
func checkClient(ctx context.Context, argv []string, limit time.Duration, table io.Writer) (*checkResult, error) {
	result := &checkResult{Passed: true}
	say(table, "%-16s  %5s  %4s  %7s  %11s  %s\n", "scenario", "calls", "most", "time", "connections", "verdict")
	for _, s := range clienttest.Scenarios() {
		v, end, err := checkScenario(ctx, s, argv, limit)
		if err != nil {
			return result, err
		}
		row := newCheckRow(&v)
		row.Exit = end.exit
		say(table, "%-16s  %5d  %4d  %6.2fs  %11d  %s\n", row.Scenario, row.Calls, row.MostCalls,
			v.Measurement.Elapsed.Seconds(), row.Connections, row.State)
		result.Scenarios = append(result.Scenarios, row)
		result.Passed = result.Passed && v.State != clienttest.Failed
		if v.State != clienttest.NotExercised {
			result.Exercised++
		}
		if result.last = end; v.Measurement.Stray != "" {
			result.stray = v.Measurement.Stray
		}
	}
	return result, nil
}

func newCheckRow(v *clienttest.Verdict) checkRow {
	m := &v.Measurement
	return checkRow{
		Scenario: v.Scenario.Name, Story: v.Scenario.Story, Good: v.Scenario.Good, State: v.State.String(),
		Calls: m.Calls, MostCalls: v.Scenario.Calls, Connections: m.Connections,
		ElapsedMs: m.Elapsed.Milliseconds(), Ended: m.Ended, Problems: v.Problems, Notes: v.Notes,
	}
}

func checkScenario(ctx context.Context, s clienttest.Scenario, argv []string, limit time.Duration) (v clienttest.Verdict, end programEnd, err error) {
	server, err := clienttest.Start(s)
	if err != nil {
		return v, end, err
	}
	began := time.Now()
	end, err = checkProgram(ctx, argv, limit, "COMPORTA_CHECK_URL="+server.URL(), "COMPORTA_CHECK_SCENARIO="+s.Name)
	m := server.Measure()
	m.Elapsed, m.Ended = time.Since(began), end.byLimit
	return s.Judge(m), end, errors.Join(err, server.Close())
}

// errNoStart says that the program could not be started.
var errNoStart = errors.New("CMD cannot start")

// programEnd is how a run of the program ended.
type programEnd struct {
	byLimit bool
	exit    string // "exit status 3", in the system's words
	tail    string // the end of what it wrote
}

// checkProgram runs the program until it ends or the limit ends it, with all the
// processes that it started and that stayed in its group. How it ends is its own
// affair, and no verdict: the server fails, and so may its client.
func checkProgram(ctx context.Context, argv []string, limit time.Duration, env ...string) (programEnd, error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var out tailWriter
	cmd := exec.CommandContext(limited, argv[0], argv[1:]...) //nolint:gosec // the command line names it
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = checkGrace
	ownGroup(cmd)
	if err := cmd.Start(); err != nil {
		return programEnd{}, fmt.Errorf("%w: %w", errNoStart, err)
	}
	_ = cmd.Wait() // see above
	killGroup(cmd)
	return programEnd{byLimit: limited.Err() != nil, exit: cmd.ProcessState.String(), tail: string(out)}, ctx.Err()
}

// tailWriter keeps the end of what is written to it.
type tailWriter []byte

// Write keeps the last bytes and never fails.
func (t *tailWriter) Write(p []byte) (int, error) {
	*t = append(*t, p...)
	if extra := len(*t) - checkTail; extra > 0 {
		*t = append((*t)[:0], (*t)[extra:]...)
	}
	return len(p), nil
}

// silent tells why nothing can be said: no run made a call that shows anything.
func (r *checkResult) silent(f *flags) int {
	say(f.stderr, "comporta check: CMD made no call to $COMPORTA_CHECK_URL, which names another server in each run\n")
	if r.stray != "" {
		say(f.stderr, "it called %s instead: the scenario is in the path, which the client must keep\n", r.stray)
	}
	if r.last.tail != "" {
		say(f.stderr, "its last run ended with %s, and wrote:\n%s\n", r.last.exit, r.last.tail)
	} else {
		say(f.stderr, "its last run ended with %s\n", r.last.exit)
	}
	return exitUsage
}

// summary says what the rows of the table mean.
func (r *checkResult) summary(w io.Writer) {
	passed := 0
	for i := range r.Scenarios {
		row := &r.Scenarios[i]
		if row.State == clienttest.Passed.String() {
			passed++
		}
		if len(row.Problems)+len(row.Notes) == 0 {
			continue
		}
		say(w, "\n%s: %s\n  the server     %s\n", row.Scenario, row.State, row.Story)
		for _, p := range row.Problems {
			say(w, "  this client    %s\n", p)
		}
		for _, n := range row.Notes {
			say(w, "  worth knowing  %s\n", n)
		}
		say(w, "  a good client  %s\n", row.Good)
	}
	say(w, "\n%d of %d scenarios passed", passed, r.Exercised)
	if missing := len(r.Scenarios) - r.Exercised; missing > 0 {
		say(w, ", %d not exercised", missing)
	}
	say(w, "\n")
}
