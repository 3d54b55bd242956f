package main

import (
	"context"
	"flag"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/comporta/comporta/internal/config"
)

func runServe(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	f := newFlags("serve", stdout, stderr)
	file := f.String("config", "", "configuration `FILE`; every key is optional but upstream.urls")
	for _, o := range overrides {
		f.String(o.Name, "", o.Value)
	}
	rest, code, done := f.parse(args)
	if done {
		return code
	}
	if len(rest) > 0 {
		return f.misused("it takes flags only, not %q", rest)
	}
	f.Visit(func(g *flag.Flag) { done = done || g.Name == "config" && *file == "" })
	if done { // a variable of a shell that is not set must not pass for no file
		return f.misused("-config is empty: name a file, or leave the flag out")
	}
	load := func() (*config.Config, []config.Problem, error) {
		return config.Load(config.Input{File: *file, Env: os.Environ(), Flags: f.overridden()})
	}
	log := slog.New(slog.NewJSONHandler(stderr, nil))
	a, err := newApp(*file, load, log, stdout)
	if err != nil {
		say(stderr, "%v\n", err)
		return exitUsage
	}
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	// The first signal ends ctx. Only those after it skip the wait of the drain, so
	// nobody listens for them before.
	again := make(chan os.Signal, 2)
	defer signal.Stop(again)
	stop := context.AfterFunc(ctx, func() { signal.Notify(again, os.Interrupt, syscall.SIGTERM) })
	defer stop()
	if err := a.run(ctx, hup, again); err != nil {
		return f.failed(err)
	}
	return exitFine
}

// overrides are the flags that set a key; Value is their help.
var overrides = []config.Flag{
	{Name: "upstream", Path: "upstream.urls", Value: "`URL` of the service to protect; several by commas"},
	{Name: "listen", Path: "listen", Value: "`ADDR` to serve on (default :8080)"},
	{Name: "admin", Path: "admin.listen", Value: "`ADDR` of the operator's listener (default 127.0.0.1:9900)"},
}

// overridden returns the flags that were given, also the empty ones: a variable of
// a shell that is not set must not pass for a default.
func (f *flags) overridden() []config.Flag {
	var given []config.Flag
	f.Visit(func(g *flag.Flag) {
		for _, o := range overrides {
			if o.Name == g.Name {
				given = append(given, config.Flag{Name: o.Name, Path: o.Path, Value: g.Value.String()})
			}
		}
	})
	return given
}
