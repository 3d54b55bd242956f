package seek

import (
	"errors"
	"fmt"
)

// The defaults of [Config]. An initial limit of 20 refused hundreds at a cold
// start of 8,000 requests a second, one of 1,000 never let a collapsed service
// recover; 32 does neither.
const (
	DefaultInitial = 32
	DefaultMin     = 2
	DefaultMax     = 1000
)

// Config bounds what a [Limit] may learn. The zero value is the default for
// each field.
type Config struct {
	// Initial is the limit before anything is known. 0 means 32, or the nearest
	// value that Min and Max allow. It is also where a recovery from an outage
	// restarts, and a quarter of the most that a restart takes over.
	Initial int
	// Min is the floor. 0 means 2, or Max if that is lower. Health checks that
	// pass the gate want 4.
	Min int
	// Max is the ceiling. 0 means 1000, or the higher of Initial and Min if
	// that is above it. In a fleet: the service's hard bound / replicas.
	Max int
}

// normal fills in the defaults, and reports every contradiction at once.
func (c Config) normal() (Config, error) {
	var problems []error
	for _, f := range []struct {
		name  string
		value int
	}{{"Initial", c.Initial}, {"Min", c.Min}, {"Max", c.Max}} {
		if f.value < 0 {
			problems = append(problems, fmt.Errorf("seek: %s is %d: write a positive number, or 0 for the default", f.name, f.value))
		}
	}
	if problems != nil {
		return Config{}, errors.Join(problems...)
	}
	if c.Max == 0 {
		c.Max = max(DefaultMax, c.Initial, c.Min)
	}
	if c.Min == 0 {
		c.Min = min(DefaultMin, c.Max)
	}
	if c.Min > c.Max {
		problems = append(problems, fmt.Errorf("seek: Min %d is above Max %d: lower Min or raise Max", c.Min, c.Max))
	}
	switch {
	case c.Initial == 0:
		c.Initial = min(max(DefaultInitial, c.Min), c.Max)
	case c.Initial < c.Min:
		problems = append(problems, fmt.Errorf("seek: Initial %d is below Min %d: raise Initial or lower Min", c.Initial, c.Min))
	case c.Initial > c.Max:
		problems = append(problems, fmt.Errorf("seek: Initial %d is above Max %d: lower Initial or raise Max", c.Initial, c.Max))
	}
	return c, errors.Join(problems...)
}

// Ceiling returns the highest limit that a [Limit] of this configuration can
// reach: Max, or what stands for it. It is 0 when the configuration contradicts
// itself.
func (c Config) Ceiling() int {
	c, err := c.normal()
	if err != nil {
		return 0
	}
	return c.Max
}
