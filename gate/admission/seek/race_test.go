//go:build race

package seek

// The simulator runs in one goroutine, so the race detector has nothing to find
// in it and makes it many times slower: one seed keeps the checks honest there.
const lastSeed = 1
