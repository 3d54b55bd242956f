package main

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/comporta/comporta/internal/admin"
)

func runLevel(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	f := newFlags("level", stdout, stderr)
	r := newRemote(f)
	rest, code, done := f.parse(args)
	if done {
		return code
	}
	if len(rest) == 0 {
		rest = []string{"show"}
	}
	var status admin.LevelStatus
	switch verb, settings := rest[0], rest[1:]; {
	case verb == "show" && len(settings) == 0:
		code, done = r.call(ctx, http.MethodGet, "/api/v1/level", nil, &status)
	case verb == "pin":
		req, problem := readLevel(settings)
		if problem != "" {
			return f.misused("%s", problem)
		}
		code, done = r.call(ctx, http.MethodPut, "/api/v1/level", req, &status)
	case verb == "clear" && len(settings) == 0:
		if code, done = r.call(ctx, http.MethodDelete, "/api/v1/level", nil, nil); done {
			return code
		}
		code, done = r.call(ctx, http.MethodGet, "/api/v1/level", nil, &status)
	default:
		return f.misused("show, %s, or clear; not %q", levelForm, strings.Join(rest, " "))
	}
	if done {
		return code
	}
	if status.Pinned {
		say(stdout, "%s (pinned until %s)\n", status.Level, status.Until.Local().Format(time.TimeOnly))
	} else {
		say(stdout, "%s\n", status.Level)
	}
	return exitFine
}

const levelForm = "pin normal|busy|overload|attack [ttl=10m]"

// readLevel reads attack ttl=10m.
func readLevel(settings []string) (req admin.LevelRequest, problem string) {
	req.TTLS = 600
	timed := false
	for _, s := range settings {
		ttl, isTTL := strings.CutPrefix(s, "ttl=")
		switch {
		case isTTL && timed, !isTTL && req.Level != "":
			return req, "one level and one ttl: " + levelForm
		case isTTL:
			timed = true
			if req.TTLS, problem = wholeText(ttl, time.Second, "seconds"); problem != "" {
				return req, "ttl: " + problem + ": " + levelForm
			}
		default:
			req.Level = s
		}
	}
	if req.Level == "" {
		return req, "the level is missing: " + levelForm
	}
	return req, ""
}
