package seek

// Ceiling returns the highest limit that the configuration allows, its defaults
// filled in; 0 for a configuration that New refuses.
func (c Config) Ceiling() int {
	n, err := c.normal()
	if err != nil {
		return 0
	}
	return n.Max
}
