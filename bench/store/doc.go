// Store measures what a keyed request asks of each engine of package store.
//
// # Basics
//
//	make bench-store
//	go run ./store -update ../docs/guide/stores.md
//
// A request with a key claims it and records an answer of half a KiB. A repeat
// looks at it. Each is done by 64 callers at once, and the first by a lone caller
// too, which shows what one commit takes. A figure is the minimum of the rounds;
// waits are of all rounds together.
//
// Engines: memory; SQLite in a temporary folder; PostgreSQL where
// COMPORTA_TEST_POSTGRES_URL says (make bench-store starts one); Redis as it
// comes, and so that it loses nothing, if redis-server is installed.
//
// The program prints a table and closes with one line per target:
//
//	PASS|MISS <name> <figure> (target <bound>)
//
// Its exit status is 1 if a target was missed, 2 if nothing could be measured.
//
// # Caveats
//
// The CPU is that of this process. SQLite works in it, the servers do not: what
// they use comes on top.
//
// Waits are those of the disk under the temporary folder. A tmpfs flatters.
package main
