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
		return f.misused("show, set max=1 [min=2s] [ttl=10m], or clear; not %q", strings.Join(rest, " "))
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

const policyForm = "use max=1 min=2s ttl=10m"

// readPolicy reads max=1 min=2s ttl=10m. Only max has no default: how often clients
// may ask is what a policy is set for.
func readPolicy(settings []string) (req admin.PolicyRequest, problem string) {
	req = admin.PolicyRequest{TTLS: 600}
	seen := map[string]bool{}
	for _, s := range settings {
		name, value, _ := strings.Cut(s, "=")
		if seen[name] {
			return req, name + " is there twice: " + policyForm
		}
		seen[name] = true
		switch name {
		case "max":
			var err error
			if req.Max, err = strconv.Atoi(value); err != nil {
				problem = strconv.Quote(value) + " is no number"
			}
		case "min":
			req.MinMs, problem = wholeText(value, time.Millisecond, "milliseconds")
		case "ttl":
			req.TTLS, problem = wholeText(value, time.Second, "seconds")
		default:
			return req, "there is no setting " + strconv.Quote(name) + ": " + policyForm
		}
		if problem != "" {
			return req, name + ": " + problem + ": " + policyForm
		}
	}
	if !seen["max"] {
		return req, "max is missing: " + policyForm
	}
	return req, ""
}
