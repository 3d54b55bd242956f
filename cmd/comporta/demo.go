package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/comporta/comporta/gate"
	"github.com/comporta/comporta/storm"
	"github.com/comporta/comporta/storm/live"
)

// Bounds of -duration: below, the outage is too short to bring the bare service
// down; above, live.MaxLength ends the storm.
const (
	leastDemo = 30 * time.Second
	mostDemo  = 10 * time.Minute
)

// demoResult is what -json prints.
type demoResult struct {
	Bare      live.Result `json:"bare"`
	Protected live.Result `json:"protected"`
}

// runDemo is `comporta demo`: the same storm twice, without and with the gate.
// It returns 0 only if the gate was worth it, 1 if not, 2 for bad arguments.
func runDemo(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("comporta demo", flag.ContinueOnError)
	flags.SetOutput(stderr)
	duration := flags.Duration("duration", 2*storm.Incident().Length, "length of both runs together, "+leastDemo.String()+" to "+mostDemo.String())
	asJSON := flags.Bool("json", false, "print the result as JSON")
	flags.Bool("no-browser", false, "accepted for scripts: the chart is drawn in the terminal, no browser is opened")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if *duration < leastDemo || *duration > mostDemo || flags.NArg() > 0 {
		fmt.Fprintf(stderr, "comporta demo: -duration %v and arguments %q: give %v to %v, and no further argument\n", *duration, flags.Args(), leastDemo, mostDemo)
		return 2
	}
	result, err := demo(ctx, storm.Incident().Within(*duration/2), stderr)
	if err != nil {
		fmt.Fprintf(stderr, "comporta demo: %v\n", err)
		return 1
	}
	if *asJSON {
		err = json.NewEncoder(stdout).Encode(result)
	} else {
		_, err = io.WriteString(stdout, live.Table("bare", result.Bare, "protected", result.Protected))
	}
	if err != nil {
		fmt.Fprintf(stderr, "comporta demo: %v\n", err)
		return 1
	}
	if !result.Protected.Beats(&result.Bare) {
		fmt.Fprintln(stderr, "comporta demo: the gate did not beat the bare service on this machine")
		return 1
	}
	return 0
}

// demo runs the storm twice.
func demo(ctx context.Context, scenario storm.Scenario, stderr io.Writer) (result demoResult, err error) {
	bare, err := demoRun(ctx, "bare: the service alone", scenario, nil, stderr)
	if err != nil {
		return result, err
	}
	g, err := gate.New(gate.Config{}, nil)
	if err != nil {
		return result, err
	}
	protected, err := demoRun(ctx, "protected: the same storm, with comporta's defaults before the service", scenario, g.Wrap, stderr)
	if err != nil {
		return result, err
	}
	return demoResult{bare.Result(), protected.Result()}, nil
}

func demoRun(ctx context.Context, title string, scenario storm.Scenario, wrap func(http.Handler) http.Handler, stderr io.Writer) (*live.Recording, error) {
	screen := live.NewScreen(stderr, title, terminal(stderr))
	recording, err := live.Incident(ctx, scenario, wrap, screen.Show)
	if err != nil {
		return nil, err
	}
	return recording, screen.Finish(recording)
}

// terminal reports whether w is one that can redraw.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
