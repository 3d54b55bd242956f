package storm_test

import (
	"fmt"
	"time"

	"github.com/comporta/comporta/storm"
)

func ExampleIncident() {
	s := storm.Incident().Within(15 * time.Second)
	fmt.Printf("%v operations/s on a service for %v, away from %v to %v\n",
		s.Demand, s.Service.Capacity(), s.OutageAt, s.OutageEnd())
	for _, c := range s.Classes {
		fmt.Printf("%3.0f %% %-15s %s\n", 100*c.Share, c.Name, c.Manner)
	}
	// Output:
	// 150 operations/s on a service for 220, away from 2.222s to 4.444s
	//  40 % web             naive
	//  24 % web that waits  obedient
	//  20 % app             obedient
	//   8 % old app         naive
	//   7 % partner         naive
	//   1 % loop            disobedient
}
