package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/comporta/comporta/storm"
	"github.com/comporta/comporta/storm/live"
)

// Bounds of the flags. live has bounds of its own on what is sent, which hold
// whatever is asked for here.
const (
	leastStorm = 6 * time.Second
	mostDemand = 1000 // new operations a second; repeats come on top
)

// stormPlan is what `comporta storm` was asked for.
type stormPlan struct {
	target   *url.URL
	anywhere bool
	scenario storm.Scenario
	json     bool
}

// stormSecond is a second of a storm as -json prints it.
type stormSecond struct {
	At        int `json:"at"`
	Originals int `json:"originals"`
	Repeats   int `json:"repeats"`
	Refused   int `json:"refused"`
	Succeeded int `json:"succeeded"`
}

// stormResult is what -json prints.
type stormResult struct {
	Target  string        `json:"target"`
	Capped  bool          `json:"capped,omitempty"` // it reached the bound on its requests
	Seconds []stormSecond `json:"seconds"`
	Result  live.Result   `json:"result"`
}

// runStorm is `comporta storm`: the population of the incident against a server of
// one's own.
func runStorm(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	f := newFlags("storm", stdout, stderr)
	target := f.String("target", "", "what is asked: the `URL` of a server")
	owned := f.String("i-own-this-target", "", "the `HOST` of the target, if it is not on loopback: only for what is yours")
	demand := f.Float64("rate", storm.Incident().Demand, fmt.Sprintf("new operations a second, up to %d; at most %d requests a second with their repeats, and %d in all", mostDemand, live.MaxRate, live.MaxRequests))
	duration := f.Duration("duration", storm.Incident().Length, fmt.Sprintf("how long, %v to %v", leastStorm, live.MaxLength))
	seed := f.Uint64("seed", 1, "draws every random number")
	asJSON := f.Bool("json", false, "print one JSON document at the end instead of a line a second")
	rest, code, done := f.parse(args)
	switch {
	case done:
		return code
	case len(rest) > 0:
		return f.misused("it takes no arguments, not %q", rest)
	case !(*demand > 0 && *demand <= mostDemand): // so written, it catches NaN too
		return f.misused("-rate %v is not within 0 and %d", *demand, mostDemand)
	case *duration < leastStorm || *duration > live.MaxLength:
		return f.misused("-duration %v is not within %v and %v", *duration, leastStorm, live.MaxLength)
	}
	p := stormPlan{scenario: storm.Incident().WithDemand(*demand).Within(*duration), json: *asJSON}
	p.scenario.Seed = *seed
	var err error
	if p.target, p.anywhere, err = stormTarget(*target, *owned); err != nil {
		return f.misused("%v", err)
	}
	if err := p.run(ctx, f); err != nil {
		return f.failed(err)
	}
	return exitFine
}

// stormTarget reads the target. Off loopback its host must be named a second time:
// a storm at what belongs to others is an attack.
func stormTarget(target, owned string) (u *url.URL, anywhere bool, err error) {
	if target == "" {
		return nil, false, errors.New("-target is required: the URL of a server, such as http://127.0.0.1:8080")
	}
	u, err = url.Parse(strings.TrimSuffix(target, "/"))
	switch {
	case err != nil:
		return nil, false, fmt.Errorf("-target: %w", err)
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, false, fmt.Errorf("-target %q: use http:// or https:// with a host, and perhaps a path", target)
	case owned != "" && owned != u.Hostname():
		return nil, false, fmt.Errorf("-i-own-this-target %q is not the host of the target, %q", owned, u.Hostname())
	}
	host := u.Hostname()
	loopback := host == "localhost" || net.ParseIP(host).IsLoopback()
	if !loopback && owned == "" {
		return nil, false, fmt.Errorf("-target %s is not on loopback: if it is yours, say so with -i-own-this-target %s", target, host)
	}
	return u, !loopback, nil
}

func (p *stormPlan) run(ctx context.Context, f *flags) error {
	transport := live.NewTransport(p.anywhere)
	defer transport.CloseIdleConnections()
	lines := stormLines{w: f.stdout, quiet: p.json}
	s := live.Storm{
		Scenario: p.scenario, URL: p.target.String(), Transport: transport, Watch: lines.show,
		Dependency: func(down bool) {
			if down {
				say(f.stderr, "comporta storm: here the scenario's outage of %v begins; what the target depends on is yours to switch off\n", p.scenario.Outage)
			} else {
				say(f.stderr, "comporta storm: here the outage ends, and what was parked is sent\n")
			}
		},
	}
	rec, err := s.Run(ctx)
	if err != nil {
		return err //nolint:wrapcheck // it names the package
	}
	lines.finish(rec)
	if p.json {
		r := stormResult{Target: p.target.String(), Capped: rec.Capped, Result: rec.Result()}
		for i, b := range rec.Seconds() {
			r.Seconds = append(r.Seconds, stormSecond{i, b.Originals, b.Repeats, b.Refused(), b.Succeeded})
		}
		if printJSON(f, r) != exitFine {
			return errors.New("the result could not be printed")
		}
		return nil
	}
	if rec.Capped {
		say(f.stderr, "comporta storm: it ended at %d requests, which is the most that one storm sends\n", live.MaxRequests)
	}
	return nil
}

// stormLines prints a line for each second, once the answers to what was sent in it
// are in or overdue.
type stormLines struct {
	w       io.Writer
	quiet   bool
	printed int
}

const stormLag = 2 // seconds

func (l *stormLines) show(rec *live.Recording) {
	l.upTo(rec, int(rec.Elapsed/time.Second)-stormLag)
}

func (l *stormLines) finish(rec *live.Recording) {
	l.upTo(rec, min(len(rec.Buckets), int(rec.Elapsed/time.Second)+1))
}

func (l *stormLines) upTo(rec *live.Recording, end int) {
	if l.quiet {
		return
	}
	seconds := rec.Seconds()
	for ; l.printed < min(end, len(seconds)); l.printed++ {
		if l.printed == 0 {
			say(l.w, "second  originals  repeats  refused  succeeded\n")
		}
		b := &seconds[l.printed]
		say(l.w, "%6d  %9d  %7d  %7d  %9d\n", l.printed, b.Originals, b.Repeats, b.Refused(), b.Succeeded)
	}
}
