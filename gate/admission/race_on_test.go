//go:build race

package admission

// raceEnabled: sync.Pool drops at random under the race detector, so that
// allocations cannot be counted.
const raceEnabled = true
