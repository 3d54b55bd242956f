// Package memstore keeps state in the memory of one process.
//
// # Basics
//
// It is for tests and for trying things out:
//
//	s := memstore.New(memstore.Config{})
//	defer s.Close()
//
// # Caveats
//
// It loses everything when the process ends, its secret too: an operation that
// was carried out before a restart is carried out again after it. Listing and
// sweeping go over all records.
package memstore
