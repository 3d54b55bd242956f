package admission_test

import (
	"fmt"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate/admission"
)

// A house of one permit: the second original waits for it, a repeat is told to
// come back.
func ExampleController() {
	var state admission.State
	c, err := admission.New(admission.Config{Capacity: 1, QueueWait: 100 * time.Millisecond}, &state)
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

	first := c.AdmitAt(now, &comporta.Request{}, admission.View{})
	fmt.Println("first admitted:", first.Admitted())

	second := c.AdmitAt(now, &comporta.Request{}, admission.View{})
	fmt.Println("second waits:", second.Waiter != nil)

	again := &comporta.Request{Sighting: comporta.Sighting{Kind: comporta.KindRetry, Evidence: comporta.EvidenceKey}}
	repeat := c.AdmitAt(now, again, admission.View{})
	fmt.Println("repeat refused:", repeat.Reason)

	now = now.Add(30 * time.Millisecond)
	first.Permit.ReleaseAt(now, comporta.Outcome{Status: 200, Result: comporta.ResultSuccess, Latency: 30 * time.Millisecond})
	second, _ = second.Waiter.AnswerAt(now)
	fmt.Println("second admitted after", second.Queued)
	second.Permit.ReleaseAt(now, comporta.Outcome{Status: 200, Result: comporta.ResultSuccess, Latency: time.Millisecond})
	fmt.Println("in flight:", c.StatsAt(now).InFlight)
	// Output:
	// first admitted: true
	// second waits: true
	// repeat refused: capacity_exhausted
	// second admitted after 30ms
	// in flight: 0
}
