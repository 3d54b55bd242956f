//go:build !unix

package h1

// silent cannot ask the system here: a connection that has died is found when it is
// written to.
func silent(uintptr) bool { return true }
