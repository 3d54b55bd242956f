package sim

// Expectation is a condition on the median of a result.
type Expectation struct {
	Defence, Field string
	Least, Most    *float64
}
