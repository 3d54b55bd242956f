// Command flaky is a service that calls a flaky one: with the loop that one
// writes first, and with the envelope.
//
//	go run ./examples/flaky
//
// While the other service fails now and then, both serve every order. While it is
// down the loop makes ten calls of each order, and the envelope stops.
package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"

	"github.com/comporta/comporta/client"
)

const orders = 30

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "flaky:", err)
		os.Exit(1)
	}
}

func run(out io.Writer) error {
	var calls, down atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1)%2 == 1 || down.Load() == 1 {
			w.Header().Set("Retry-After-Ms", "20")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer other.Close()

	envelope, err := client.New(client.Config{Version: "flaky-example/1.0.0"})
	if err != nil {
		return err
	}
	with := envelope.HTTP(nil) // the whole difference: it repeats, so the caller does not
	for _, state := range []string{"flaky", "down"} {
		calls.Store(0)
		fmt.Fprintf(out, "%-5s  loop      %s", state, serve(&calls, 10, &http.Client{}, other.URL))
		calls.Store(0)
		fmt.Fprintf(out, "%-5s  envelope  %s", state, serve(&calls, 1, with, other.URL))
		down.Store(1)
	}
	return nil
}

// serve handles the orders, each with up to so many tries of its own.
func serve(calls *atomic.Int64, tries int, c *http.Client, url string) string {
	served := 0
	for range orders {
		for range tries {
			resp, err := c.Get(url) //nolint:noctx // as one writes it first
			if err != nil {
				continue
			}
			_ = resp.Body.Close() // nothing is in it
			if resp.StatusCode == http.StatusOK {
				served++
				break
			}
		}
	}
	return fmt.Sprintf("%2d of %d orders served with %3d calls\n", served, orders, calls.Load())
}
