// Decision measures what the gate's decision costs, against its targets and
// against what other Go libraries ask for the like.
//
// # Basics
//
//	make bench-decision
//	go run ./decision -update-readme ../README.md
//
// Everything is measured in one process, in rounds: each round runs every
// subject once, the two of a pair one right after the other and first in turns,
// so that a noisy moment of the machine strikes both. A figure is the minimum of
// the rounds, because noise only ever adds; the range says how much it added.
//
// The program prints two tables and closes with one line per target:
//
//	PASS|MISS <name> <figure> (target <bound>)
//
// Its exit status is 1 if a target was missed, 2 if nothing could be measured.
//
// # Caveats
//
// One goroutine asks at a time: this is the price of a decision, not of
// contention. Rivals do less than the gate (none of them tells a repeat from an
// original), which is why they are held against the part of it that does the
// same as they.
//
// A rival that refused would do other work than the one it is measured for, so a
// single refusal ends the program.
package main
