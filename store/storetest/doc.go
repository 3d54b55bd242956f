// Package storetest holds what every store.Keys must do, as tests.
//
// # Basics
//
// An engine is held against it in one test of its own package:
//
//	func TestKeys(t *testing.T) {
//		storetest.Keys(t, storetest.Features{}, func(t testing.TB) storetest.Engine { … })
//	}
//
// # Caveats
//
// With an engine that goes by a clock which cannot be moved, the suite waits for
// leases and lives of a fraction of a second to pass. It waits until the engine
// says so and not for a fixed time, so that a slow machine makes it slow and not
// wrong; what would have to happen before a lease ends is tried with long ones.
package storetest
