package main

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/comporta/comporta/internal/admin"
)

func runPolicy(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	f := newFlags("policy", stdout, stderr)
	r := newRemote(f)
	rest, code, done := f.parse(args)
	if done {
		return code
	}
	if len(rest) == 0 {
		rest = []string{"show"}
	}
	var status admin.PolicyStatus
	switch verb, settings := rest[0], rest[1:]; {
	case verb == "show" && len(settings) == 0:
		code, done = r.call(ctx, http.MethodGet, "/api/v1/policy", nil, &status)
	case verb == "set":
		req, problem := readPolicy(settings)
		if problem != "" {
			return f.misused("%s", problem)
		}
		code, done = r.call(ctx, http.MethodPut, "/api/v1/policy", req, &status)
	case verb == "clear" && len(settings) == 0:
		code, done = r.call(ctx, http.MethodDelete, "/api/v1/policy", nil, nil)
	default:
		return f.misused("show, set max=1 [min=2s] ttl=10m, or clear; not %q", strings.Join(rest, " "))
	}
	if done {
		return code
	}
	if !status.Set {
		say(stdout, "no policy rides on refusals\n")
		return exitFine
	}
	say(stdout, "Retry-Policy: %s (until %s)\n", status.Header, status.Until.Local().Format(time.TimeOnly))
	return exitFine
}

// readPolicy reads max=1 min=2s ttl=10m.
func readPolicy(settings []string) (req admin.PolicyRequest, problem string) {
	req = admin.PolicyRequest{Max: 1, TTLS: 600}
	for _, s := range settings {
		name, value, _ := strings.Cut(s, "=")
		var err error
		switch name {
		case "max":
			req.Max, err = strconv.Atoi(value)
		case "min":
			var d time.Duration
			d, err = time.ParseDuration(value)
			req.MinMs = d.Milliseconds()
		case "ttl":
			var d time.Duration
			d, err = time.ParseDuration(value)
			req.TTLS = int64(d / time.Second)
		default:
			return req, "there is no setting " + strconv.Quote(name) + ": use max=1 min=2s ttl=10m"
		}
		if err != nil {
			return req, strconv.Quote(s) + " cannot be read: use max=1 min=2s ttl=10m"
		}
	}
	return req, ""
}
