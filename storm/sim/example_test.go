package sim_test

import (
	"fmt"
	"time"

	"github.com/comporta/comporta/storm/sim"
)

func ExampleRun() {
	s, _ := sim.Builtin("incident")
	s.Demand, s.Length = 20, 60*time.Minute // enough to see whether it ends early
	for _, defence := range []string{"none", "limit"} {
		r, err := sim.Run(&s, defence, 1)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s: recovered %t, peak %.0fx\n", defence, r.Recovered, r.PeakX)
	}
	// Output:
	// none: recovered false, peak 9x
	// limit: recovered true, peak 5x
}
