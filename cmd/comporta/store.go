package main

import (
	"context"
	"io"

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
		if err := sqlitestore.Check(ctx, rest[1]); err != nil {
			return f.failed(err)
		}
		say(stdout, "%s: sound\n", rest[1])
	case len(rest) == 3 && rest[0] == "backup":
		if err := sqlitestore.Backup(ctx, rest[1], rest[2]); err != nil {
			return f.failed(err)
		}
		say(stdout, "%s: written, readable by you only\n", rest[2])
	default:
		return f.misused("say what to do: check FILE, or backup FILE COPY")
	}
	return exitFine
}
