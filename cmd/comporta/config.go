package main

import (
	"context"
	"io"
	"os"

	"github.com/comporta/comporta/internal/config"
)

func runConfig(_ context.Context, args []string, stdout, stderr io.Writer) int {
	f := newFlags("config", stdout, stderr)
	rest, code, done := f.parse(args)
	if done {
		return code
	}
	in := config.Input{Env: os.Environ(), WithoutUpstream: true}
	switch len(rest) {
	case 0:
	case 1:
		if in.File = rest[0]; in.File == "" {
			return f.misused("name a file, or leave the argument out: this one is empty")
		}
	default:
		return f.misused("name at most one file")
	}
	c, warnings, err := config.Load(in)
	for _, w := range warnings {
		say(stderr, "warning: %s\n", w)
	}
	if err != nil {
		say(stderr, "%v\n", err)
		return exitUsage
	}
	if err := c.Render(stdout); err != nil {
		return f.failed(err)
	}
	return exitFine
}
