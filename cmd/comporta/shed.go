package main

import (
	"context"
	"flag"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/comporta/comporta/gate"
	"github.com/comporta/comporta/internal/admin"
)

// leverFlags are the flags that make a lever.
type leverFlags struct {
	route, client, version string
	percent                int
	ttl                    time.Duration
}

func newLeverFlags(f *flags) *leverFlags {
	var l leverFlags
	f.StringVar(&l.route, "route", "", "`NAME` of a route")
	f.StringVar(&l.client, "client", "", "`CLIENT`: its name or the hash of its key, as comporta who shows it")
	f.StringVar(&l.version, "version", "", "client `VERSION`: name or name/version")
	f.IntVar(&l.percent, "percent", 100, "share of the matching requests; the same operations each time")
	f.DurationVar(&l.ttl, "ttl", 10*time.Minute, "how long; a lever expires by itself")
	f.StringVar(&l.route, "R", "", "short for -route `NAME`")
	f.StringVar(&l.client, "C", "", "short for -client `CLIENT`")
	f.StringVar(&l.version, "V", "", "short for -version `VERSION`")
	f.IntVar(&l.percent, "P", 100, "short for -percent")
	f.DurationVar(&l.ttl, "T", 10*time.Minute, "short for -ttl")
	return &l
}

var leverFlagNames = []string{"route", "R", "client", "C", "version", "V", "percent", "P", "ttl", "T"}

// given returns the flags of the lever that were said, also the empty ones.
func (l *leverFlags) given(f *flags) []*flag.Flag {
	var given []*flag.Flag
	f.Visit(func(g *flag.Flag) {
		if slices.Contains(leverFlagNames, g.Name) {
			given = append(given, g)
		}
	})
	return given
}

// request makes a lever of the flags that were given, or says what is wrong.
func (l *leverFlags) request(given []*flag.Flag) (req admin.ShedRequest, problem string) {
	for _, g := range given {
		if g.Value.String() == "" {
			return req, "-" + g.Name + " is empty: name what to shed, or leave the flag out"
		}
	}
	if l.route == "" && l.client == "" && l.version == "" {
		return req, "name what to shed: -route, -client or -version"
	}
	seconds, problem := whole(l.ttl, time.Second, "seconds")
	if problem != "" {
		return req, "-ttl " + problem
	}
	return admin.ShedRequest{Route: l.route, Client: l.client, Version: l.version, Percent: l.percent, TTLS: seconds}, ""
}

func runShed(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	f := newFlags("shed", stdout, stderr)
	r, lever := newRemote(f), newLeverFlags(f)
	rest, code, done := f.parse(args)
	if done {
		return code
	}
	given := lever.given(f)
	switch {
	case len(rest) > 0:
	case len(given) > 0: // a lever was meant, however badly: a list would look like success
		rest = []string{"add"}
	default:
		rest = []string{"list"}
	}
	switch verb := rest[0]; {
	case verb == "add" && len(rest) == 1:
		return addLever(ctx, r, lever, given)
	case (verb == "list" || verb == "remove") && len(given) > 0:
		return f.misused("%s takes no -%s", verb, given[0].Name)
	case verb == "list" && len(rest) == 1:
		var levers admin.Levers
		if code, done = r.call(ctx, http.MethodGet, "/api/v1/shed", nil, &levers); !done {
			printLevers(stdout, levers.Levers)
		}
	case verb == "remove" && len(rest) == 2 && rest[1] == "":
		return f.misused("name a lever by its number, as comporta shed list shows it")
	case verb == "remove" && len(rest) == 2:
		if code, done = r.call(ctx, http.MethodDelete, "/api/v1/shed/"+segment(rest[1]), nil, nil); !done {
			say(stdout, "lever %s is removed\n", rest[1])
		}
	default:
		return f.misused("list, add -route R | -client C | -version V [-percent P] [-ttl T], or remove ID; not %q", strings.Join(rest, " "))
	}
	return code
}

func addLever(ctx context.Context, r *remote, lever *leverFlags, given []*flag.Flag) int {
	req, problem := lever.request(given)
	if problem != "" {
		return r.misused("%s", problem)
	}
	var set gate.Lever
	code, done := r.call(ctx, http.MethodPost, "/api/v1/shed", req, &set)
	if !done {
		printLevers(r.stdout, []gate.Lever{set})
	}
	return code
}

func printLevers(w io.Writer, levers []gate.Lever) {
	if len(levers) == 0 {
		say(w, "no lever is set\n")
		return
	}
	for _, l := range levers {
		say(w, "%-4d", l.ID)
		for _, c := range []struct{ name, value string }{{"route", l.Route}, {"client", l.Client}, {"version", l.Version}} {
			if c.value != "" {
				say(w, " %s=%s", c.name, c.value)
			}
		}
		say(w, " percent=%d until %s\n", l.Percent, l.Until.Local().Format(time.TimeOnly))
	}
}
