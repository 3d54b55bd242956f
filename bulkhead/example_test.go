package bulkhead_test

import (
	"context"
	"fmt"
	"time"

	"github.com/comporta/comporta/bulkhead"
)

// Two calls at once and a short queue: the third call waits its 10 ms, and is
// then told that the destination is busy on this side already.
func ExampleBulkhead() {
	b, err := bulkhead.New(bulkhead.Config{Limit: 2, Queue: 1, MaxWait: 10 * time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	first, _ := b.Acquire(ctx)
	defer first.Release()
	second, _ := b.Acquire(ctx)

	_, err = b.Acquire(ctx)
	fmt.Println(err != nil, b.Stats())

	second.Release()
	third, err := b.Acquire(ctx)
	fmt.Println(err, b.Stats())
	third.Release()
	// Output:
	// true {2 2 0}
	// <nil> {2 2 0}
}
