package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/comporta/comporta/bench/internal/measure"
	"github.com/comporta/comporta/gate/ratelimit"
)

func main() {
	if order := os.Getenv(nodeVariable); order != "" {
		os.Exit(runNode(order, os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// program is the name in the marks of the report.
const program = "ratelimit"

// quotable is how many rounds make a minimum that may be quoted.
const quotable = 10

// options are the flags. Less than the defaults is for trying the program out:
// the targets mean the defaults.
type options struct {
	rounds  int
	round   time.Duration
	keys    int // of the limiters in one process
	cold    int // keys of the cold pairs
	callers int
	runs    int // of the six nodes
	run     time.Duration
	update  string // file
}

func run(args []string, out, complaints io.Writer) int {
	var o options
	flags := flag.NewFlagSet(program, flag.ContinueOnError)
	flags.SetOutput(complaints)
	flags.IntVar(&o.rounds, "rounds", 12, fmt.Sprintf("`rounds` to measure, at least %d for figures to quote", quotable))
	flags.DurationVar(&o.round, "round", 150*time.Millisecond, "`time` that each subject gets in a round")
	flags.IntVar(&o.keys, "keys", 1_000_000, "`keys` of the limiters in one process")
	flags.IntVar(&o.cold, "cold", 100_000, "cold `keys` in Redis")
	flags.IntVar(&o.callers, "callers", 64, "`goroutines` that ask through Redis")
	flags.IntVar(&o.runs, "runs", 10, "`runs` of the six nodes")
	flags.DurationVar(&o.run, "run", time.Second, "`time` of such a run")
	flags.StringVar(&o.update, "update-readme", "", "`file` whose report is rewritten")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if o.rounds < 1 || o.round <= 0 || o.keys < ratelimit.MinKeys || o.cold < hotKeys || o.callers < 1 || o.runs < 1 || o.run <= 0 {
		fmt.Fprintf(complaints, "%s: rounds, round, callers, runs and run must be above 0, keys at least %d and cold %d\n", program, ratelimit.MinKeys, hotKeys)
		return 2
	}
	if o.rounds < quotable {
		fmt.Fprintf(complaints, "%s: below %d rounds the figures are for trying out only\n", program, quotable)
		if o.update != "" {
			return 2
		}
	}
	r, err := measured(&o)
	if err != nil {
		fmt.Fprintf(complaints, "%s: %v\n", program, err)
		return 2
	}
	report := r.markdown()
	if o.update != "" {
		if err := measure.Update(o.update, program, report); err != nil {
			fmt.Fprintf(complaints, "%s: %v\n", program, err)
			return 2
		}
	}
	fmt.Fprintf(out, "%s\n", report)
	return measure.Print(out, r.verdicts())
}

// measured measures memory first, while nothing else lives on the heap.
func measured(o *options) (*result, error) {
	r := &result{options: *o}
	names := namesOf(o.keys)
	var err error
	if r.bytes, err = bytesOf(names); err != nil {
		return nil, err
	}
	if r.local, err = localPairs(names); err != nil {
		return nil, err
	}
	if err := measure.All(o.rounds, o.round, nil, r.local); err != nil {
		return nil, err
	}
	// From here on an interrupt ends the server, and with it all that asks it: none
	// of it stays behind.
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	server, err := startRedis(ctx)
	if err != nil {
		return nil, err
	}
	defer server.stop()
	if r.hot, err = redisPairs(ctx, server.addr, o.callers, "hot", namesOf(hotKeys), hotRate); err != nil {
		return nil, err
	}
	defer r.hot.close()
	r.hotPairs = r.hot.pairs()
	if err := measure.All(o.rounds, o.round, nil, r.hotPairs); err != nil {
		return nil, err
	}
	if r.cold, err = redisPairs(ctx, server.addr, o.callers, "cold", namesOf(o.cold), coldRate); err != nil {
		return nil, err
	}
	defer r.cold.close()
	r.coldPairs = r.cold.pairs()
	if err := measure.All(o.rounds, o.round, nil, r.coldPairs); err != nil {
		return nil, err
	}
	r.accuracy, err = sixNodes(ctx, server.addr, o.runs, o.run)
	return r, err
}
