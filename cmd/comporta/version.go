package main

import (
	"context"
	"encoding/json"
	"io"
	"runtime"
	"runtime/debug"
)

// version is set by the release build; a build from source says what it knows.
var version = "devel"

type versionInfo struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	Commit  string `json:"commit,omitempty"`
	Changed bool   `json:"changed,omitempty"` // built from a changed work tree
}

func versionOf() versionInfo {
	v := versionInfo{Version: version, Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if version == "devel" && info.Main.Version != "" && info.Main.Version != "(devel)" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.modified":
			v.Changed = s.Value == "true"
		}
	}
	return v
}

func runVersion(_ context.Context, args []string, stdout, stderr io.Writer) int {
	f := newFlags("version", stdout, stderr)
	asJSON := f.Bool("json", false, "print one JSON document")
	rest, code, done := f.parse(args)
	if done {
		return code
	}
	if len(rest) > 0 {
		return f.misused("it takes no arguments, not %q", rest)
	}
	v := versionOf()
	if *asJSON {
		return printJSON(f, v)
	}
	say(stdout, "comporta %s (%s)", v.Version, v.Go)
	if v.Commit != "" {
		say(stdout, ", commit %s", v.Commit)
	}
	if v.Changed {
		say(stdout, ", changed")
	}
	say(stdout, "\n")
	return exitFine
}

// printJSON prints exactly one JSON document.
func printJSON(f *flags, v any) int {
	e := json.NewEncoder(f.stdout)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return f.failed(err)
	}
	return exitFine
}
