package remote_test

import (
	"fmt"
	"net/http"
	"time"

	"github.com/comporta/comporta/client/remote"
)

// A refusal says that the service can bear no repeats for the next ten minutes.
// The client's own policy is back when they are over.
func ExampleSwitch() {
	s, err := remote.New(remote.Config{Ceiling: remote.Limits{MaxAttempts: 4, Total: 20 * time.Second}})
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	fmt.Println(s.LimitsAt(now, "/orders").MaxAttempts, "attempts")

	refusal := http.Header{"Retry-Policy": {"max=1;min-ms=2000;ttl=600"}}
	s.HeardAt(now, refusal)
	fmt.Println(s.LimitsAt(now, "/orders").MaxAttempts, "attempt")

	now = now.Add(10 * time.Minute)
	fmt.Println(s.LimitsAt(now, "/orders").MaxAttempts, "attempts")
	// Output:
	// 4 attempts
	// 1 attempt
	// 4 attempts
}
