// Command comporta is the gateway, its demo and its operator's tools.
//
// One file holds one subcommand; the work is done by the packages beside.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// Exit codes.
const (
	exitFine   = 0
	exitFailed = 1
	exitUsage  = 2 // bad usage or bad configuration
)

// command is one subcommand.
type command struct {
	name  string
	usage string
	job   string
	run   func(ctx context.Context, args []string, stdout, stderr io.Writer) int
}

func commands() []command {
	return []command{
		{"serve", "[-config FILE] [-upstream URL] [-listen ADDR] [-admin ADDR]", "the gateway; -upstream alone is enough", runServe},
		{"demo", "[-duration D] [-json] [-no-browser]", "the incident on loopback, bare and protected", runDemo},
		{"simulate", "[SCENARIO|FILE.yaml] [-seeds N] [-compare A,B,…] [-sweep key=lo:hi:n] [-set key=value] [-out DIR] [-json] [-csv]", "a storm in virtual time, and what defences make of it", runSimulate},
		{"storm", "-target URL [-i-own-this-target HOST] [-rate N] [-duration D] [-seed N] [-json]", "the incident's clients against a server of your own, as live load", runStorm},
		{"validate", "FILE", "every problem of a configuration, with its place and remedy", runValidate},
		{"config", "[FILE]", "the effective configuration, each value with its origin", runConfig},
		{"check", "client [-limit 4s] [-json] -- CMD…", "how many calls a client makes to a server that fails", runCheck},
		{"policy", "show | set max=1 [min=2s] [ttl=10m] | clear", "what refusals tell clients about retrying", runPolicy},
		{"shed", "list | add [-R ROUTE] [-C CLIENT] [-V VERSION] [-P PERCENT] [-T TTL] | remove ID", "levers that turn traffic away for a while", runShed},
		{"level", "show | pin normal|busy|overload|attack [ttl=10m] | clear", "how hard the house is pressed, or shall count as being", runLevel},
		{"keys", "list [KEY] | show KEY|NAME | release KEY|NAME [-yes]", "idempotency keys: what runs, what was done, what is in doubt", runKeys},
		{"who", "[HASH|NAME]", "the clients that ask most", runWho},
		{"explain", "REQUEST_ID", "why a request was refused", runExplain},
		{"store", "check FILE | backup FILE COPY", "care for the file of the SQLite engine, also while it is in use", runStore},
		{"version", "", "version, Go and commit", runVersion},
	}
}

func main() {
	// The signals stay caught to the very end: one that comes when all is done must
	// not make a failure of it.
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		help(stderr)
		return exitUsage
	}
	switch args[0] {
	case "-h", "-help", "--help", "help":
		help(stdout)
		return exitFine
	case "-version", "--version":
		args[0] = "version"
	}
	for _, c := range commands() {
		if c.name == args[0] {
			return c.run(ctx, args[1:], stdout, stderr)
		}
	}
	say(stderr, "comporta: there is no command %q\n\n", args[0])
	help(stderr)
	return exitUsage
}

func help(w io.Writer) {
	say(w, "comporta ends retry storms: originals first, and every refused client its own instant to return.\n\nusage: comporta COMMAND [flags]\n\n")
	for _, c := range commands() {
		say(w, "  %-9s %s\n", c.name, c.job)
	}
	say(w, "\n'comporta COMMAND -h' tells the flags of a command.\n")
}

// say prints to a terminal or a pipe: when nobody reads, there is nobody to tell.
func say(w io.Writer, format string, args ...any) { //nolint:goprintffuncname // a command's most frequent word
	_, _ = fmt.Fprintf(w, format, args...)
}

// flags is a flag set that knows its command's usage line. Flags may stand
// before, between and after the positional arguments.
type flags struct {
	*flag.FlagSet

	stdout, stderr io.Writer
}

func newFlags(name string, stdout, stderr io.Writer) *flags {
	f := &flags{flag.NewFlagSet(name, flag.ContinueOnError), stdout, stderr}
	f.SetOutput(io.Discard)
	return f
}

// parse returns the positional arguments. done means that the command ends with
// the code: help was asked for, or the usage was wrong.
func (f *flags) parse(args []string) (positional []string, code int, done bool) {
	for {
		err := f.Parse(args)
		switch {
		case errors.Is(err, flag.ErrHelp):
			f.usage(f.stdout)
			return nil, exitFine, true
		case err != nil:
			return nil, f.misused("%v", err), true
		}
		rest := f.Args()
		if len(rest) == 0 {
			return positional, 0, false
		}
		if len(args) > len(rest) && args[len(args)-len(rest)-1] == "--" {
			return append(positional, rest...), 0, false
		}
		positional, args = append(positional, rest[0]), rest[1:]
	}
}

func (f *flags) usage(w io.Writer) {
	for _, c := range commands() {
		if c.name == f.Name() {
			say(w, "usage: %s\n\n%s\n", strings.TrimSpace("comporta "+c.name+" "+c.usage), c.job)
		}
	}
	some := false
	f.VisitAll(func(*flag.Flag) { some = true })
	if some {
		say(w, "\nflags:\n")
		f.SetOutput(w)
		f.PrintDefaults()
		f.SetOutput(io.Discard)
	}
}

// misused tells what is wrong with the usage, and how it should be.
func (f *flags) misused(format string, args ...any) int {
	text := fmt.Sprintf(format, args...)
	say(f.stderr, "comporta %s: %s\n\n", f.Name(), strings.TrimSpace(text))
	f.usage(f.stderr)
	return exitUsage
}

// failed tells why a command failed.
func (f *flags) failed(err error) int {
	text := strings.TrimPrefix(err.Error(), "comporta: ") // the gateway's own words may say either
	text = strings.TrimPrefix(text, f.Name()+": ")
	say(f.stderr, "comporta %s: %s\n", f.Name(), text)
	return exitFailed
}
