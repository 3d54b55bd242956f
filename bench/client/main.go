package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/comporta/comporta/bench/internal/measure"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// program is the name in the marks of the report.
const program = "client"

// quotable is how many rounds make a minimum that may be quoted.
const quotable = 10

// options are the flags. Less than the defaults is for trying the program out:
// the targets mean the defaults.
type options struct {
	weather weather
	rounds  int
	round   time.Duration
	update  string // file
}

func run(args []string, out, complaints io.Writer) int {
	var o options
	flags := flag.NewFlagSet("client", flag.ContinueOnError)
	flags.SetOutput(complaints)
	flags.IntVar(&o.weather.calls, "calls", 400, "`calls` in the outage")
	flags.IntVar(&o.weather.workers, "workers", 20, "`workers` that make them")
	flags.IntVar(&o.rounds, "rounds", 24, fmt.Sprintf("`rounds` to measure, at least %d for figures to quote", quotable))
	flags.DurationVar(&o.round, "round", 15*time.Millisecond, "`time` that each subject gets in a round")
	flags.StringVar(&o.update, "update-readme", "", "`file` whose report is rewritten")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if o.rounds < 1 || o.round <= 0 || o.weather.calls < 1 || o.weather.workers < 1 {
		fmt.Fprintln(complaints, "client: calls, workers, rounds and round must be above 0")
		return 2
	}
	if o.rounds < quotable {
		fmt.Fprintf(complaints, "client: below %d rounds the figures are for trying out only\n", quotable)
		if o.update != "" {
			return 2
		}
	}
	r, err := measured(&o)
	if err != nil {
		fmt.Fprintln(complaints, "client:", err)
		return 2
	}
	report := r.markdown()
	if o.update != "" {
		if err := measure.Update(o.update, program, report); err != nil {
			fmt.Fprintln(complaints, "client:", err)
			return 2
		}
	}
	fmt.Fprintf(out, "%s\n", report)
	return measure.Print(out, r.verdicts())
}

// measured measures the overhead first, while no rival has left anything running.
func measured(o *options) (*result, error) {
	r := &result{rounds: o.rounds, weather: o.weather}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var err error
	if r.success, err = overheads(ctx); err != nil {
		return nil, err
	}
	var pairs []measure.Pair
	for _, s := range r.success {
		pairs = append(pairs, s.bounded, s.free)
	}
	if err := measure.All(o.rounds, o.round, nil, pairs); err != nil {
		return nil, err
	}
	for _, c := range contestants() {
		s, err := o.weather.through(c)
		if err != nil {
			return nil, err
		}
		r.storms = append(r.storms, s)
	}
	return r, nil
}
