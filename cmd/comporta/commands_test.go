package main

import (
	"bytes"
	"context"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// command runs one command against the gateway and returns what it wrote.
func (g *gateway) command(t *testing.T, want int, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(context.Background(), append(args, "-admin", g.admin), &stdout, &stderr)
	if code != want {
		t.Fatalf("%q: exit code %d, want %d\n%s%s", args, code, want, &stdout, &stderr)
	}
	if want != exitFine {
		if stdout.Len() > 0 {
			t.Errorf("%q failed and wrote to stdout: %s", args, &stdout)
		}
		return stderr.String()
	}
	if stderr.Len() > 0 {
		t.Errorf("%q wrote to stderr: %s", args, &stderr)
	}
	if args[len(args)-1] == "-json" {
		if err := oneDocument(stdout.Bytes()); err != nil {
			t.Errorf("%q: %v\n%s", args, err, &stdout)
		}
	}
	return stdout.String()
}

// An operator's hour: pull a lever, see it, feel it, ask why, take it back.
func TestOperatorsCommands(t *testing.T) {
	g := start(t, service(t, fine), "clients: {names: {acme: afacab35}}\nroutes: [{match: /orders/, name: orders}]") // sha256 of acme-key
	clock := regexp.MustCompile(`\d\d:\d\d:\d\d(\.\d+)?`)
	left := regexp.MustCompile(`ttl=(8\d|90)\b`) // a second may pass between two commands
	for _, step := range []struct {
		code int
		args string
		want string
	}{
		{0, "shed", "no lever is set\n"},
		{0, "policy", "no policy rides on refusals\n"},
		{0, "who", "nobody has asked yet\n"},
		{0, "shed add -route orders -ttl 5m", "1    route=orders percent=100 until TIME\n"},
		{0, "shed -C acme -P 50 -T 1m", "2    client=acme percent=50 until TIME\n"},
		{0, "shed list", "1    route=orders percent=100 until TIME\n2    client=acme percent=50 until TIME\n"},
		{0, "shed remove 2", "lever 2 is removed\n"},
		{1, "shed remove 2", "comporta shed: no lever has this id: it may have expired\n"},
		{1, "shed add -version acme-go -percent 0", "comporta shed: percent 0 is not within 1 to 100\n"},
		{0, "policy set max=2 min=1500ms ttl=90s", "Retry-Policy: max=2;min-ms=1500;ttl=LEFT (until TIME)\n"},
		{0, "policy show", "Retry-Policy: max=2;min-ms=1500;ttl=LEFT (until TIME)\n"},
		{1, "policy set max=11", "comporta policy: max 11 is not within 1 (no retry) and 10\n"},
		{0, "policy clear", "no policy rides on refusals\n"},
		{1, "explain no-such-id", "comporta explain: no refusal with this request id is remembered: only the newest 4,096 are, and none of a request that was let in\n"},
		{1, "who -top 0", "comporta who: top must be a number within 1 and 1000\n"},
	} {
		got := g.command(t, step.code, strings.Fields(step.args)...)
		got = left.ReplaceAllString(clock.ReplaceAllString(got, "TIME"), "ttl=LEFT")
		if got != step.want {
			t.Errorf("%s:\ngot  %q\nwant %q", step.args, got, step.want)
		}
	}
	for _, path := range []string{"/orders/1", "/"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.url+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Request-Id", "id"+path[1:])
		req.Header.Set("X-Api-Key", "acme-key")
		res, err := g.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
	}
	if got := g.command(t, 0, "explain", "idorders/1"); !strings.Contains(got, ": shed_by_operator\n") || !strings.Contains(got, "GET on route orders\n") || !strings.Contains(got, "acme (anonymous)\n") {
		t.Errorf("explain:\n%s", got)
	}
	if got := g.command(t, 0, "who"); !strings.Contains(got, "\nacme ") {
		t.Errorf("who:\n%s", got)
	}
	if got := g.command(t, 0, "who", "acme"); strings.Count(got, "\n") < 2 {
		t.Errorf("who acme:\n%s", got)
	}
	if got := g.command(t, 1, "who", "nobody"); !strings.Contains(got, "nobody is not among the clients that ask most") {
		t.Errorf("who nobody: %s", got)
	}
}

// interface.md: with -json stdout holds exactly one document, also where there is
// nothing to tell.
func TestJSON(t *testing.T) {
	g := start(t, service(t, fine), "")
	g.mustServe(t)
	for _, args := range []string{
		"shed list", "shed add -route other", "shed remove 1", "policy show", "policy set max=1", "policy clear", "who", "who -top 5",
	} {
		g.command(t, 0, append(strings.Fields(args), "-json")...)
	}
	for _, args := range []string{"explain a", "shed remove 1", "policy set max=0", "who nobody"} {
		g.command(t, 1, append(strings.Fields(args), "-json")...)
	}
}
