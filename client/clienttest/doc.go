// Package clienttest counts the calls that a client makes when it should give
// up: a client without a ceiling is the attack, and without a test the ceiling
// goes in the first refactoring.
//
// # Basics
//
// Each [Scenario] is one way in which servers fail. [Run] plays all of them to
// an http.Client, in a test:
//
//	func TestOurClientHasACeiling(t *testing.T) {
//		clienttest.Run(t, ourclient.New().HTTP())
//	}
//
// For any other program there is the command `comporta check client -- CMD…`,
// made of the same parts: a [Server] per scenario on loopback, and
// [Scenario.Judge] for what it measured.
//
// # Caveats
//
// A run makes one operation. What is counted are the calls that reach the
// server, whoever repeated them: program, library, sidecar.
//
// Measurement ends with the run's limit, so a client that would call again an
// hour later is not found out. Time is real time here: a [Run] takes [Limit], its
// scenarios side by side.
//
// The package does not import testing, so that it can be part of a command.
package clienttest
