package main

import (
	"context"
	"io"
	"os"

	"github.com/comporta/comporta/internal/config"
)

func runValidate(_ context.Context, args []string, stdout, stderr io.Writer) int {
	f := newFlags("validate", stdout, stderr)
	rest, code, done := f.parse(args)
	if done {
		return code
	}
	if len(rest) != 1 || rest[0] == "" {
		return f.misused("name one file")
	}
	c, warnings, err := config.Load(config.Input{File: rest[0], Env: os.Environ()})
	for _, w := range warnings {
		say(stderr, "warning: %s\n", w)
	}
	if err != nil {
		say(stderr, "%v\n", err)
		return exitUsage
	}
	// What only a look into the files and the parts can tell.
	if err := tryCompile(c, 0); err != nil {
		say(stderr, "%v\n", err)
		return exitUsage
	}
	say(stdout, "%s: fine\n", rest[0])
	return exitFine
}
