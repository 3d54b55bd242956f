package main

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/comporta/comporta/internal/admin"
)

func runWho(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	f := newFlags("who", stdout, stderr)
	r := newRemote(f)
	top := f.Int("top", 20, "how many")
	rest, code, done := f.parse(args)
	if done {
		return code
	}
	path := fmt.Sprintf("/api/v1/who?top=%d", *top)
	switch len(rest) {
	case 0:
	case 1:
		path = "/api/v1/who?top=1000"
	default:
		return f.misused("name at most one client")
	}
	if len(rest) == 1 && rest[0] == "" {
		return f.misused("name at most one client, and not an empty one")
	}
	wantJSON := *r.asJSON
	*r.asJSON = false // one client is picked out of the list below
	var who admin.Who
	if code, done = r.call(ctx, http.MethodGet, path, nil, &who); done {
		return code
	}
	if len(rest) == 1 {
		who.Clients = only(who.Clients, rest[0])
		if len(who.Clients) == 0 {
			return f.failed(fmt.Errorf("%s is not among the clients that ask most", rest[0]))
		}
	}
	if wantJSON {
		return printJSON(f, who)
	}
	if len(who.Clients) == 0 {
		say(stdout, "nobody has asked yet\n")
		return exitFine
	}
	say(stdout, "%-24s %-9s %10s %12s\n", "client", "kind", "recent", "total")
	for _, c := range who.Clients {
		say(stdout, "%-24s %-9s %10d %12d\n", c.Client, c.Kind, c.Recent, c.Total)
	}
	return exitFine
}

func only(clients []admin.Client, name string) []admin.Client {
	var kept []admin.Client
	for _, c := range clients {
		if c.Client == name {
			kept = append(kept, c)
		}
	}
	return kept
}
