package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/comporta/comporta/gate"
	"github.com/comporta/comporta/storm"
	"github.com/comporta/comporta/storm/live"
)

// Bounds of -duration. Below, the outage is too short to bring the bare service
// down; above, the storms come near the bound on their requests.
const (
	leastDemo = 20 * time.Second
	mostDemo  = 2 * time.Minute
)

// demoResult is what -json prints.
type demoResult struct {
	Bare      live.Result `json:"bare"`
	Protected live.Result `json:"protected"`
}

// runDemo is `comporta demo`: the same storm twice on loopback, without and with
// the gate. It ends with exitFine only if the gate was worth it.
func runDemo(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	f := newFlags("demo", stdout, stderr)
	duration := f.Duration("duration", 2*storm.Incident().Length, fmt.Sprintf("length of both runs together, %v to %v", leastDemo, mostDemo))
	asJSON := f.Bool("json", false, "print one JSON document instead of the table")
	f.Bool("no-browser", false, "does nothing yet, since no browser is opened anyway; accepted for scripts")
	rest, code, done := f.parse(args)
	if done {
		return code
	}
	if len(rest) > 0 {
		return f.misused("it takes no arguments, not %q", rest)
	}
	if *duration < leastDemo || *duration > mostDemo {
		return f.misused("-duration %v is not within %v and %v", *duration, leastDemo, mostDemo)
	}
	result, err := demo(ctx, storm.Incident().Within(*duration/2), stderr)
	if err != nil {
		return f.failed(err)
	}
	if *asJSON {
		if code := printJSON(f, result); code != exitFine {
			return code
		}
	} else {
		say(stdout, "\n%s", live.Table("bare", &result.Bare, "protected", &result.Protected))
	}
	return judgeDemo(f, &result)
}

// judgeDemo says when the gate was not worth it, and what may have been in the way.
func judgeDemo(f *flags, result *demoResult) int {
	if result.Protected.Beats(&result.Bare) {
		return exitFine
	}
	say(f.stderr, "comporta demo: the gate did not beat the bare service: it must recover in less than half the time, peak no higher, and need fewer requests for a success\n")
	if before := min(result.Bare.Before, result.Protected.Before); before < 0.99 {
		say(f.stderr, "this machine served only %.0f %% of the users before anything failed: it is too busy for the demo\n", 100*before)
	}
	return exitFailed
}

// demo runs the storm twice. The gate is the default one: it has to learn what
// the service can take.
func demo(ctx context.Context, scenario storm.Scenario, screen io.Writer) (result demoResult, err error) {
	bare, err := demoRun(ctx, "bare: the service alone", scenario, nil, screen)
	if err != nil {
		return result, err
	}
	g, err := gate.New(gate.Config{}, nil)
	if err != nil {
		return result, err
	}
	protected, err := demoRun(ctx, "protected: the same storm, comporta in front with its defaults", scenario, g.Wrap, screen)
	if err != nil {
		return result, err
	}
	return demoResult{Bare: bare.Result(), Protected: protected.Result()}, nil
}

func demoRun(ctx context.Context, title string, scenario storm.Scenario, wrap func(http.Handler) http.Handler, w io.Writer) (*live.Recording, error) {
	screen := live.NewScreen(w, title, redraws(w))
	recording, err := live.Incident(ctx, scenario, wrap, screen.Show)
	if err != nil {
		return nil, err
	}
	return recording, screen.Finish(recording)
}

// redraws reports whether w is a terminal on which the cursor can go back.
func redraws(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
