package repeat_test

import (
	"fmt"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate/repeat"
)

// A client asks three times: the first try fails, the second succeeds, and the
// third is not a retry any more.
func ExampleDetector() {
	table, err := repeat.NewTable(0)
	if err != nil {
		panic(err)
	}
	detector, err := repeat.New(repeat.Config{}, table)
	if err != nil {
		panic(err)
	}
	now := time.Date(2026, 3, 3, 14, 12, 0, 0, time.UTC)
	for _, status := range []int{500, 200, 200} {
		r := comporta.Request{
			Method: "POST", Host: "api.example", Path: "/orders", IdempotencyKey: "7d1e",
			Client: comporta.Client{Key: 42, Class: comporta.ClassProven},
		}
		detector.SeeAt(now, &r, 0, false)
		fmt.Println(r.Sighting.Kind, r.Sighting.Evidence, r.Sighting.Attempts)

		now = now.Add(time.Second)
		detector.ResolveAt(now, &r, comporta.Outcome{Status: status, Result: comporta.ResultOf(status)})
	}
	// Output:
	// original none 1
	// retry key 2
	// poll key 3
}
