package clienttest_test

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/comporta/comporta/client/clienttest"
)

// net/http makes one call and leaves the rest to its user.
func ExampleCheck() {
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	verdicts, err := clienttest.Check(context.Background(), client, 200*time.Millisecond)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, v := range verdicts[:3] {
		fmt.Printf("%s: %d of at most %d calls, %v\n", v.Scenario.Name, v.Measurement.Calls, v.Scenario.Calls, v.State)
	}
	// Output:
	// unavailable: 1 of at most 5 calls, passed
	// big-bodies: 1 of at most 5 calls, passed
	// beyond-deadline: 1 of at most 1 calls, passed
}
