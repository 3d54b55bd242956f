//go:build race

package retryafter

const raceEnabled = true
