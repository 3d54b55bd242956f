package sim

import (
	"math"
	"testing"
)

// A draw depends on its name alone, is even, and has nothing to do with the draws of
// other names.
func TestDice(t *testing.T) {
	d := dice{mix(7)}
	const n = 50_000
	var mean, square, together, exponential float64
	for i := range uint64(n) {
		a, b := d.of(askClass, i, 0), d.of(askUser, i, 0)
		if a != (dice{mix(7)}).of(askClass, i, 0) {
			t.Fatal("the same name draws something else")
		}
		if a < 0 || a >= 1 {
			t.Fatalf("%v is not within [0, 1)", a)
		}
		mean += a / n
		square += a * a / n
		together += a * b / n
		exponential += d.exponential(askPatience, i, 3) / n
	}
	for what, pair := range map[string][2]float64{
		"mean": {mean, 0.5}, "square": {square, 1.0 / 3}, "product of two": {together, 0.25}, "exponential": {exponential, 1},
	} {
		if math.Abs(pair[0]-pair[1]) > 0.015 {
			t.Errorf("%s: %.4f, want %.4f", what, pair[0], pair[1])
		}
	}
}
