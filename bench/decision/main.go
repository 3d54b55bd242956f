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
const program = "decision"

// quotable is how many rounds make a minimum that may be quoted.
const quotable = 10

// handlerClients ask the two handlers: few enough for the caches, since the rival
// looks at no client and would have nothing to miss. What a crowd costs is in the
// figures of the whole decision.
const handlerClients = 100

// options are the flags. Fewer rounds or keys than the defaults are for trying
// the program out: the targets mean the defaults.
type options struct {
	rounds  int
	round   time.Duration
	live    int // fingerprints
	clients int // who ask, in the gate's own figures
	keys    int
	update  string // file
}

func run(args []string, out, complaints io.Writer) int {
	var o options
	flags := flag.NewFlagSet("decision", flag.ContinueOnError)
	flags.SetOutput(complaints)
	flags.IntVar(&o.rounds, "rounds", 12, fmt.Sprintf("`rounds` to measure, at least %d for figures to quote", quotable))
	flags.DurationVar(&o.round, "round", 60*time.Millisecond, "`time` that each subject gets in a round")
	flags.IntVar(&o.live, "live", 1_000_000, "live `fingerprints`")
	flags.IntVar(&o.clients, "clients", 50_000, "`clients` that ask")
	flags.IntVar(&o.keys, "keys", 10_000_000, "distinct `keys` that go through the tables")
	flags.StringVar(&o.update, "update-readme", "", "`file` whose report is rewritten")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if o.rounds < 1 || o.round <= 0 || o.live < 4 || o.clients < 1 || o.keys < 1 {
		fmt.Fprintln(complaints, "decision: rounds, round, live (from 4), clients and keys must be above 0")
		return 2
	}
	if o.rounds < quotable {
		fmt.Fprintf(complaints, "decision: below %d rounds the figures are for trying out only\n", quotable)
		if o.update != "" {
			return 2
		}
	}
	r, err := measured(&o)
	if err != nil {
		fmt.Fprintln(complaints, "decision:", err)
		return 2
	}
	report := r.markdown()
	if o.update != "" {
		if err := measure.Update(o.update, program, report); err != nil {
			fmt.Fprintln(complaints, "decision:", err)
			return 2
		}
	}
	fmt.Fprintf(out, "%s\n", report)
	return measure.Print(out, r.verdicts())
}

// measured makes everything and measures it. The tables come first, while
// nothing else lives on the heap.
func measured(o *options) (*result, error) {
	tables, err := fill(o.keys)
	if err != nil {
		return nil, err
	}
	r := &result{rounds: o.rounds, tables: tables}
	if err := r.addDecisions(o); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	directory, err := r.addPairs(ctx, handlerClients)
	if directory != "" {
		defer os.RemoveAll(directory)
	}
	if err != nil {
		return nil, err
	}
	alone := append([]*measure.Subject{r.admit, r.refuse}, r.others...)
	return r, measure.All(o.rounds, o.round, alone, r.pairs)
}

func (r *result) addDecisions(o *options) error {
	crowds := [3]*crowd{}
	for i, c := range [3]struct {
		make    func() (decider, error)
		clients int
	}{{newParts, o.clients}, {newWhole, o.clients}, {newWhole, o.live}} {
		d, err := c.make()
		if err != nil {
			return err
		}
		if crowds[i], err = newCrowd(o.live, c.clients, d); err != nil {
			return err
		}
	}
	h, err := newFullHouse(o.clients)
	if err != nil {
		return err
	}
	door, err := newDoor(o.clients)
	if err != nil {
		return err
	}
	r.admit = &measure.Subject{Name: fmt.Sprintf("identity, repeat, admission and release, %d live fingerprints", o.live), Run: crowds[0].run}
	r.refuse = &measure.Subject{Name: "a refusal: decision, booking and ticket", Run: door.run, Tend: door.tend, Chunk: refusalChunk}
	r.others = []*measure.Subject{
		{Name: "the whole refusal, from signals to ticket", Run: h.run, Tend: h.tend, Chunk: refusalChunk},
		{Name: "the whole decision and its release", Run: crowds[1].run},
		{Name: "the whole decision, a client for every fingerprint", Run: crowds[2].run},
	}
	return nil
}

// addPairs makes the pairs, each with a limiter of ours of its own. The
// directory is to be removed, whatever the error.
func (r *result) addPairs(ctx context.Context, clients int) (directory string, err error) {
	limits, err := concurrencyLimits()
	if err != nil {
		return "", err
	}
	sentinel, directory, err := sentinelSystem()
	if err != nil {
		return directory, err
	}
	handler, err := ourHandler(ctx, clients)
	if err != nil {
		return directory, err
	}
	r.pairs = []measure.Pair{
		{Target: "vs_failsafe_limiter", What: "failsafe-go v0.9.8, adaptive limiter", Theirs: failsafeLimiter()},
		{Target: "vs_failsafe_http", What: "failsafe-go v0.9.8, its HTTP handler against `gate.Wrap`", Ours: handler, Theirs: failsafeHandler(ctx, clients)},
		{Target: "vs_gozero", What: "go-zero v1.10.3, `core/load`", Theirs: goZero()},
		{Target: "vs_aegis", What: "aegis v0.2.0, BBR", Theirs: aegis()},
		{Target: "vs_limits", What: "go-concurrency-limits v0.8.0, Vegas", Theirs: limits},
		{Target: "vs_sentinel", What: "sentinel-golang v1.0.4, system rule", Theirs: sentinel},
	}
	for i := range r.pairs {
		if p := &r.pairs[i]; p.Ours == nil {
			if p.Ours, err = ourLimiter(); err != nil {
				return directory, err
			}
		}
	}
	return directory, nil
}
