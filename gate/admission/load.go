package admission

// Load returns the weight in flight and the limit: what a decision needs to know
// of the house, for the price of two loads.
func (c *Controller) Load() (inflight, limit int) {
	inflight, _ = c.state.count()
	return inflight, c.Limit()
}
