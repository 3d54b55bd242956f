package retry_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/comporta/comporta/client/retry"
)

func ExampleDo() {
	calls := 0
	err := retry.Do(context.Background(), "billing", func(context.Context) error {
		if calls++; calls < 2 {
			return retry.After(errors.New("busy"), 5*time.Millisecond) // as the other side asked
		}
		return nil
	})
	fmt.Println(calls, err)

	err = retry.Do(context.Background(), "billing", func(context.Context) error {
		return retry.Stop(errors.New("no such invoice"))
	})
	if gave, ok := errors.AsType[*retry.Error](err); ok {
		fmt.Println(gave.Report.Attempts, gave.Report.Reason, gave.Err)
	}
	// Output:
	// 2 <nil>
	// 1 stopped no such invoice
}
