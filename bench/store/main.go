package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/comporta/comporta/bench/internal/measure"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// program is the name in the marks of the report.
const program = "store"

// callers is how many are at work at once.
const callers = 64

// options are the flags. Less than the defaults is for trying the program out:
// the targets mean the defaults.
type options struct {
	rounds int
	round  time.Duration
	update string // file
}

func run(args []string, out, complaints io.Writer) int {
	var o options
	flags := flag.NewFlagSet(program, flag.ContinueOnError)
	flags.SetOutput(complaints)
	flags.IntVar(&o.rounds, "rounds", 10, "`rounds` to measure")
	flags.DurationVar(&o.round, "round", 500*time.Millisecond, "`time` that each subject gets in a round")
	flags.StringVar(&o.update, "update", "", "`file` whose report is rewritten")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if o.rounds < 1 || o.round <= 0 {
		fmt.Fprintln(complaints, "store: rounds and round must be above 0")
		return 2
	}
	r, err := measured(&o, complaints)
	if err != nil {
		fmt.Fprintln(complaints, "store:", err)
		return 2
	}
	report := r.markdown()
	if o.update != "" {
		if err := measure.Update(o.update, program, report); err != nil {
			fmt.Fprintln(complaints, "store:", err)
			return 2
		}
	}
	fmt.Fprintf(out, "%s\n", report)
	return measure.Print(out, r.verdicts())
}

func measured(o *options, complaints io.Writer) (*result, error) {
	r := &result{rounds: o.rounds}
	ctx := context.Background()
	for _, e := range engines {
		row, err := measureOne(ctx, o, e)
		if err != nil {
			fmt.Fprintf(complaints, "store: without %s: %v\n", e.name, err)
			continue
		}
		r.rows = append(r.rows, *row)
	}
	if len(r.rows) == 0 {
		return nil, errors.New("no engine could be opened")
	}
	return r, nil
}

// measureOne measures one engine, while no other is open.
func measureOne(ctx context.Context, o *options, e engine) (*row, error) {
	keys, end, err := e.open(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	defer func() { _ = keys.Close() }() // what it held is thrown away
	h, err := keys.Health(ctx)
	if err != nil {
		return nil, err
	}
	crowd, alone := newWork(keys, callers), newWork(keys, 1)
	subjects := []*measure.Subject{
		{Name: e.name + ", claim and finish", Run: crowd.once},
		{Name: e.name + ", look", Run: crowd.repeat},
		{Name: e.name + ", claim and finish, alone", Run: alone.once},
	}
	if err := measure.All(o.rounds, o.round, subjects, nil); err != nil {
		return nil, err
	}
	return newRow(e.name, h.Loss, crowd, subjects), nil
}
