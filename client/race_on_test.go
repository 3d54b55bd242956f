//go:build race

package client

// raceEnabled: the race detector allocates for itself and is slow.
const raceEnabled = true
