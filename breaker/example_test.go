package breaker_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/breaker"
)

// A dependency fails ten times out of ten: the next call is refused, and told
// when to ask again. After that time a single call finds out.
func ExampleBreaker() {
	b, err := breaker.New(breaker.Config{Minimum: 10, Rand: func() float64 { return 0.2 }})
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	failed := comporta.Outcome{Status: 503, Result: comporta.ResultFailed}
	for range 10 {
		if permit, err := b.AllowAt(now); err == nil {
			permit.DoneAt(now, failed)
		}
	}

	_, err = b.AllowAt(now)
	fmt.Println(err)
	if refusal, ok := errors.AsType[*breaker.OpenError](err); ok {
		now = now.Add(refusal.RetryAfter)
	}

	probe, err := b.AllowAt(now)
	fmt.Println("probe:", err)
	_, err = b.AllowAt(now)
	fmt.Println("others:", errors.Is(err, breaker.ErrOpen))
	probe.DoneAt(now, comporta.Outcome{Status: 200, Result: comporta.ResultSuccess})
	fmt.Println(b.StatsAt(now).State)
	// Output:
	// breaker: open for 5.5s
	// probe: <nil>
	// others: true
	// closed
}
