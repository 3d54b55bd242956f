package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/comporta/comporta/store/sqlitestore"
)

// runStore is `comporta store`: care for the file of the SQLite engine, also while a
// gateway uses it.
func runStore(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	f := newFlags("store", stdout, stderr)
	rest, code, done := f.parse(args)
	if done {
		return code
	}
	switch {
	case len(rest) == 2 && rest[0] == "check":
		err := isFile(rest[1])
		if err == nil {
			err = sqlitestore.Check(ctx, rest[1])
		}
		if err != nil {
			return f.failed(err)
		}
		say(stdout, "%s: sound\n", rest[1])
	case len(rest) == 3 && rest[0] == "backup":
		err := isFile(rest[1])
		if err == nil {
			err = sqlitestore.Backup(ctx, rest[1], rest[2])
		}
		if err != nil {
			return f.failed(err)
		}
		say(stdout, "%s: written, readable by you only\n", rest[2])
	default:
		return f.misused("say what to do: check FILE, or backup FILE COPY")
	}
	return exitFine
}

// isFile refuses what SQLite would fail to read without saying why, or wait for: a
// directory, a pipe. What cannot be looked at is the engine's to tell.
func isFile(path string) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no file: name another path", path)
	}
	return nil
}
