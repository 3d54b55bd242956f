//go:build !race

package seek

// lastSeed is the last of the seeds that the acceptance checks run with.
const lastSeed = 8
