package remote_test

import (
	"fmt"
	"time"

	"github.com/comporta/comporta/client/remote"
	"github.com/comporta/comporta/client/retry"
)

// A refusal says that the service can bear no repeats for the next ten minutes.
// The client's own policy is back when they are over.
func ExampleSwitch() {
	s, err := remote.New(remote.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	own := retry.Policy{MaxAttempts: 4}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	attempts := func() int { return own.Tighten(s.LimitsAt(now, "api.example", "/orders")).MaxAttempts }
	fmt.Println(attempts(), "attempts")

	s.HeardAt(now, "api.example", "max=1;min-ms=2000;ttl=600")
	fmt.Println(attempts(), "attempt")

	now = now.Add(10 * time.Minute)
	fmt.Println(attempts(), "attempts")
	// Output:
	// 4 attempts
	// 1 attempt
	// 4 attempts
}
