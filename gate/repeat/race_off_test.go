//go:build !race

package repeat

// raceEnabled shortens the long tests: the detector slows them tenfold.
const raceEnabled = false
