package main

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/comporta/comporta/gate"
	"github.com/comporta/comporta/internal/admin"
)

func runShed(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	f := newFlags("shed", stdout, stderr)
	r := newRemote(f)
	var (
		route   = f.String("route", "", "`NAME` of a route")
		client  = f.String("client", "", "`CLIENT`: its name or the hash of its key")
		app     = f.String("version", "", "client `VERSION`: name or name/version")
		percent = f.Int("percent", 100, "share of the matching requests; the same operations each time")
		ttl     = f.Duration("ttl", 10*time.Minute, "how long; a lever expires by itself")
	)
	f.StringVar(route, "R", "", "short for -route")
	f.StringVar(client, "C", "", "short for -client")
	f.StringVar(app, "V", "", "short for -version")
	f.IntVar(percent, "P", 100, "short for -percent")
	f.DurationVar(ttl, "T", 10*time.Minute, "short for -ttl")
	rest, code, done := f.parse(args)
	if done {
		return code
	}
	named := *route != "" || *client != "" || *app != ""
	if len(rest) == 0 {
		rest = []string{"list"}
		if named {
			rest = []string{"add"}
		}
	}
	switch {
	case rest[0] == "list" && len(rest) == 1 && !named:
		var levers admin.Levers
		if code, done = r.call(ctx, http.MethodGet, "/api/v1/shed", nil, &levers); !done {
			printLevers(stdout, levers.Levers)
		}
	case rest[0] == "add" && len(rest) == 1 && named:
		var lever gate.Lever
		req := admin.ShedRequest{Route: *route, Client: *client, Version: *app, Percent: *percent, TTLS: int64(*ttl / time.Second)}
		if code, done = r.call(ctx, http.MethodPost, "/api/v1/shed", req, &lever); !done {
			printLevers(stdout, []gate.Lever{lever})
		}
	case rest[0] == "remove" && len(rest) == 2:
		if code, done = r.call(ctx, http.MethodDelete, "/api/v1/shed/"+url.PathEscape(rest[1]), nil, nil); !done {
			say(stdout, "lever %s is removed\n", rest[1])
		}
	case rest[0] == "add":
		return f.misused("name what to shed: -route, -client or -version")
	default:
		return f.misused("list, add -route R | -client C | -version V [-percent P] [-ttl T], or remove ID; not %q", strings.Join(rest, " "))
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
