package main

import (
	"strings"
	"testing"
)

// What is not a lever is refused with its remedy, and never passes for a question.
func TestShedMisuse(t *testing.T) {
	g := start(t, service(t, fine), "clients: {names: {acme: afacab35}}")
	for _, c := range []struct {
		code int
		args []string
		want string
	}{
		{2, []string{"-client", ""}, "-client is empty: name what to shed"},
		{2, []string{"-C", ""}, "-C is empty"},
		{2, []string{"add", "-route", "other", "-version", ""}, "-version is empty"},
		{2, []string{"-percent", "50", "-ttl", "1m"}, "name what to shed: -route, -client or -version"},
		{2, []string{"-ttl", "1m"}, "name what to shed"},
		{2, []string{"list", "-percent", "5"}, "list takes no -percent"},
		{2, []string{"remove", "1", "-T", "5m"}, "remove takes no -T"},
		{2, []string{"remove", ""}, "name a lever by its number"},
		{2, []string{"-route", "other", "-ttl", "1ns"}, "-ttl 1ns is not a number of whole seconds"},
		{2, []string{"-route", "other", "-ttl", "1500ms"}, "-ttl 1.5s is not a number of whole seconds"},
		{1, []string{"-route", "other", "-ttl", "-1m"}, "ttl -1m0s is not within"},
		{1, []string{"-client", "zz yy"}, "comporta who"},
		{1, []string{"-client", "acme-key"}, "16 hexadecimal digits"},
		{1, []string{"-version", "acme-app/2.x"}, "name/major.minor.patch"},
	} {
		got := g.command(t, c.code, append([]string{"shed"}, c.args...)...)
		if !strings.Contains(got, c.want) {
			t.Errorf("%q: got %q, want %q", c.args, got, c.want)
		}
	}
	if got := g.command(t, exitFine, "shed"); got != "no lever is set\n" {
		t.Errorf("a refused lever is set: %s", got)
	}
	if log := g.log.String(); strings.Contains(log, "acme-key") || strings.Contains(log, "zz yy") || !strings.Contains(log, `"client":"(not a name)"`) {
		t.Errorf("the audit tells what may be a key:\n%s", log)
	}
	g.command(t, exitFine, "shed", "-client", "acme")
	g.command(t, exitFine, "shed", "-client", "0123456789ABCDEF", "-version", "acme-app/2.3")
	if got := g.command(t, exitFine, "shed"); !strings.Contains(got, " client=0123456789abcdef version=acme-app/2.3 ") {
		t.Errorf("got %s", got)
	}
}

func TestPolicyMisuse(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"policy set", "max is missing: use max=1 min=2s ttl=10m"},
		{"policy set min=2s ttl=10m", "max is missing"},
		{"policy set max=1 max=2", "max is there twice"},
		{"policy set max=1 ttl=1m ttl=2m", "ttl is there twice"},
		{"policy set max=1 ttl=1ns", "ttl: 1ns is not a number of whole seconds"},
		{"policy set max=1 min=1us", "min: 1µs is not a number of whole milliseconds"},
	} {
		g := gateway{admin: "http://127.0.0.1:1"} // not asked
		if got := g.command(t, exitUsage, strings.Fields(c.args)...); !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.args, got, c.want)
		}
	}
}

// An empty argument is a variable of a shell that is not set.
func TestEmptyArguments(t *testing.T) {
	g := gateway{admin: "http://127.0.0.1:1"} // not asked
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"explain", ""}, "name one request id"},
		{[]string{"who", ""}, "name at most one client, and not an empty one"},
	} {
		if got := g.command(t, exitUsage, c.args...); !strings.Contains(got, c.want) {
			t.Errorf("%q: got %q", c.args, got)
		}
	}
}
