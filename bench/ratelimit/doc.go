// Ratelimit measures what a decision of a rate limiter costs, in one process and
// through Redis, and by how much six processes that share a limit exceed it.
//
// # Basics
//
//	make bench-ratelimit
//	go run ./ratelimit -update-readme ../README.md
//
// It starts a redis-server of its own on a free port of loopback. Everything is
// measured in rounds: each round runs every subject once, the two of a pair one
// right after the other and first in turns, so that a noisy moment of the machine
// strikes both. A figure is the minimum of the rounds, because noise only ever
// adds.
//
//   - In one process: one goroutine, a million keys in no order, nobody is denied.
//   - Through Redis: 64 goroutines on one connection pool, 100 hot keys (10,000/s
//     each) or 100,000 cold ones (100/s each). The 99th percentile is of every
//     single call of all rounds.
//   - Accuracy: six processes with eight callers each, on one key that may have
//     1,000/s with a burst of 1,000, flat out; ten times.
//
// The program prints three tables and closes with one line per target:
//
//	PASS|MISS <name> <figure> (target <bound>)
//
// Its exit status is 1 if a target was missed, 2 if nothing could be measured.
//
// # Caveats
//
// Rivals ask Redis for every decision and are exact; redislimit asks for few, and
// errs within a bound that it states. That is the trade that is measured here.
//
// The server and its callers share the machine, so the figures through Redis are
// those of a Redis that has no machine of its own.
package main
