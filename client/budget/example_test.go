package budget_test

import (
	"fmt"

	"github.com/comporta/comporta/client/budget"
)

func Example() {
	budgets, err := budget.New(budget.Config{Burst: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	b := budgets.Of("api.example.com")

	fmt.Println("down:", b.Withdraw(), b.Withdraw(), b.Withdraw())
	for range 10 { // it works again, at the first try
		b.Deposit()
	}
	fmt.Println("up:", b.Withdraw(), b.Withdraw())
	// Output:
	// down: true true false
	// up: true false
}
