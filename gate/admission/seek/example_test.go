package seek_test

import (
	"fmt"
	"time"

	"github.com/comporta/comporta/gate/admission/seek"
)

// A service answers everything in 20 ms, and always more requests ask than the
// limit lets in. Nobody waits inside, so the limit doubles until it is no longer
// felt, or meets its ceiling.
func ExampleLimit() {
	limit, err := seek.New(seek.Config{Max: 200})
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Now() // the caller's clock; the package reads none
	inflight := 0
	for range 40 { // rounds of 20 ms
		for inflight < limit.Limit() {
			inflight++
			limit.StartAt(now, inflight)
		}
		limit.RefusedAt(now)
		now = now.Add(20 * time.Millisecond)
		for inflight > 0 {
			inflight--
			limit.DoneAt(now, inflight, 20*time.Millisecond, false)
		}
	}
	fmt.Println(limit.Limit(), limit.Snapshot().Mode)
	// Output: 200 free
}
