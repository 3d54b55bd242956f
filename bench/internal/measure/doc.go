// Package measure measures like against like in one process, and says whether
// targets were met.
//
// # Basics
//
// A [Subject] does something n times. [All] runs subjects in rounds, the two of a
// [Pair] one right after the other and first in turns, so that a noisy moment of
// the machine strikes both. [Subject.Summary] is the minimum of the rounds,
// because noise only ever adds. A [Verdict] is a target and how it was met;
// [Print] writes all of them. [Update] puts a report between its marks in a file.
//
// # Caveats
//
// Allocations and CPU time are those of the whole process: nothing else may run
// beside a subject.
package measure
