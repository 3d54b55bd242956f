package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"syscall"

	"github.com/comporta/comporta/bench/internal/measure"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == roleCommand { // a signal ends a role at once
		os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// program is the name in the marks of the report.
const program = "proxy"

// quotable is how many rounds make a minimum that may be quoted.
const quotable = 8

// options are the flags. Less than the defaults is for trying the program out:
// the targets mean the defaults.
type options struct {
	rounds  int
	seconds int // that each row is loaded in a round
	only    *regexp.Regexp
	update  string // file
}

// run is the program. As `serve ROLE` it is one of the processes that it
// measures itself; see serve.go.
func run(ctx context.Context, args []string, out, complaints io.Writer) int {
	if len(args) > 0 && args[0] == roleCommand {
		if err := serve(args[1:]); err != nil {
			fmt.Fprintln(complaints, "proxy:", err)
			return 2
		}
		return 0
	}
	o, err := parse(args, complaints)
	if err != nil {
		return 2
	}
	r, err := measured(ctx, o)
	if err != nil {
		fmt.Fprintln(complaints, "proxy:", err)
		return 2
	}
	report := r.markdown()
	if o.update != "" {
		if err := measure.Update(o.update, program, report); err != nil {
			fmt.Fprintln(complaints, "proxy:", err)
			return 2
		}
	}
	fmt.Fprintf(out, "%s\n", report)
	return measure.Print(out, r.verdicts())
}

func parse(args []string, complaints io.Writer) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("proxy", flag.ContinueOnError)
	flags.SetOutput(complaints)
	flags.IntVar(&o.rounds, "rounds", 10, fmt.Sprintf("`rounds` to measure, at least %d for figures to quote", quotable))
	flags.IntVar(&o.seconds, "seconds", 1, "`seconds` that each row is loaded in a round")
	only := flags.String("only", "", "measure the rows whose table and name match this `regexp`, as in 'GET.*nginx'")
	flags.StringVar(&o.update, "update-readme", "", "`file` whose report is rewritten")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	var err error
	switch o.only, err = regexp.Compile(*only); {
	case err != nil:
	case o.rounds < 1 || o.seconds < 1:
		err = errors.New("rounds and seconds must be above 0")
	case o.update != "" && (o.rounds < quotable || *only != ""):
		err = fmt.Errorf("only %d rounds of all rows may be quoted", quotable)
	case o.rounds < quotable:
		fmt.Fprintf(complaints, "proxy: below %d rounds the figures are for trying out only\n", quotable)
	}
	if err != nil {
		fmt.Fprintln(complaints, "proxy:", err)
	}
	return o, err
}
