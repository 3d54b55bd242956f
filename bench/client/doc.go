// Client counts what HTTP clients do to a service that is down, and measures what
// the envelope of this project costs when all is well.
//
// # Basics
//
//	make bench-client
//	go run ./client -update-readme ../README.md
//
// Every client gets the same policy (4 attempts, exponential waits, 2 s in all),
// the same transport below it, and the same service on loopback, which counts the
// calls and the connections that reach it. Three storms:
//
//   - a total outage: 20 workers make 400 calls, each is answered 503 with 2 KiB
//   - three layers of the client, one in another, around one call
//   - a Retry-After beyond the deadline of the call
//
// The overhead of a call that succeeds is measured with a transport in memory,
// against a plain http.Client, in rounds; a figure is the minimum of the rounds. The
// request has two header lines; in a row of its own it has twelve.
//
// The program prints two tables and closes with one line per target:
//
//	PASS|MISS <name> <figure> (target <bound>)
//
// Its exit status is 1 if a target was missed, 2 if nothing could be measured.
//
// # Caveats
//
// The waits are milliseconds, where a program would wait for seconds: what is
// counted does not depend on them. Whatever the policy does not name (what a
// client returns when it gives up, whether it reads a failed body to its end) is
// left as its authors made it.
//
// The rows with a breaker show few calls because most never leave the process:
// that bounds the load, and also refuses what would have succeeded.
package main
