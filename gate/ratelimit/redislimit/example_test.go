package redislimit_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/comporta/comporta/gate/ratelimit"
	"github.com/comporta/comporta/gate/ratelimit/redislimit"
)

func ExampleParseURL() {
	where, err := redislimit.ParseURL("redis+sentinel://a.example,b.example:26380/limits/2")
	fmt.Println(where.Addrs, where.MasterName, where.DB, err)
	_, err = redislimit.ParseURL("redis://a.example,b.example")
	fmt.Println(err)
	// Output:
	// [a.example:26379 b.example:26380] limits 2 <nil>
	// redislimit: 2 hosts: say whether they are redis+cluster or redis+sentinel
}

// A store whose Redis is away is made all the same. It decides nothing: the
// failure mode of the rule does, which the caller of a bare store applies itself.
func Example() {
	ctx := context.Background()
	where, err := redislimit.ParseURL("redis://127.0.0.1:1/0")
	if err != nil {
		fmt.Println(err)
		return
	}
	store, err := redislimit.New(ctx, redislimit.Config{Redis: where, Secret: []byte("the same on every node")})
	if err != nil {
		fmt.Println(err)
		return
	}
	policy, err := ratelimit.NewPolicy(ratelimit.Policy{
		Name: "api", Limit: ratelimit.Limit{Rate: ratelimit.Rate{Count: 10, Per: time.Minute}},
	})
	if err == nil {
		err = store.Prepare(time.Now(), policy)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	debits, results := []ratelimit.Debit{{Policy: policy, Key: []byte("ana"), Cost: 1}}, make([]ratelimit.Result, 1)
	ok, err := store.Take(ctx, time.Now(), debits, results)
	fmt.Println(ok, errors.Is(err, redislimit.ErrUnavailable))
	// Output:
	// false true
}
