package main

import (
	"regexp"
	"strings"
	"testing"
)

// A level can be seen, pinned, and let go; a pin outlives a reload, and everything
// that shows the level shows the pin's.
func TestLevelCommand(t *testing.T) {
	upstream := service(t, fine)
	g := start(t, upstream, "")
	clock := regexp.MustCompile(`\d\d:\d\d:\d\d`)
	step := func(code int, args, want string) {
		t.Helper()
		if got := clock.ReplaceAllString(g.command(t, code, strings.Fields("level "+args)...), "TIME"); got != want {
			t.Errorf("level %s:\ngot  %swant %s", args, got, want)
		}
	}
	step(0, "", "normal\n")
	step(0, "pin attack ttl=5m", "attack (pinned until TIME)\n")
	step(0, "show", "attack (pinned until TIME)\n")
	step(1, "pin panic", "comporta level: level \"panic\" is unknown: use normal, busy, overload or attack\n")
	step(1, "pin busy ttl=25h", "comporta level: ttl 25h0m0s is not within 0 and 24h0m0s: a pin must expire by itself\n")
	if n := g.metric(t, `comporta_overload_level{level="attack"}`); n != "1" {
		t.Errorf("comporta_overload_level of the pinned level is %s", n)
	}
	g.write(t, upstream, "slots: {grace: 6s}")
	if why := g.reload(t); why != "" {
		t.Fatal(why)
	}
	if s := g.status(t); s.Level != "attack" {
		t.Errorf("after a reload it is %s", s.Level)
	}
	step(0, "clear", "normal\n")
	step(0, "clear", "normal\n")
}

func TestLevelMisuse(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"level pin", "the level is missing"},
		{"level pin ttl=5m", "the level is missing"},
		{"level pin busy attack", "one level and one ttl"},
		{"level pin busy ttl=5m ttl=6m", "one level and one ttl"},
		{"level pin busy ttl=1ns", "ttl: 1ns is not a number of whole seconds"},
		{"level pin busy ttl=soon", `"soon" is no duration`},
		{"level busy", "show, pin normal|busy|overload|attack [ttl=10m], or clear"},
		{"level clear all", "or clear; not \"clear all\""},
	} {
		g := gateway{admin: "http://127.0.0.1:1"} // not asked
		if got := g.command(t, exitUsage, strings.Fields(c.args)...); !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.args, got, c.want)
		}
	}
}
