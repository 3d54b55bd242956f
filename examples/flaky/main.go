// Command flaky serves orders that need a flaky service, with the loop that one
// writes first and with the envelope: go run ./examples/flaky
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

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "flaky:", err)
		os.Exit(1)
	}
}

func run(out io.Writer) error {
	var calls atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1)%2 == 1 || r.URL.Path == "/down" {
			w.Header().Set("Retry-After-Ms", "20")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer other.Close()
	envelope, err := client.New(client.Config{})
	if err != nil {
		return err
	}
	for _, state := range []string{"flaky", "down"} {
		served := serve(http.DefaultClient, 10, other.URL+"/"+state)
		fmt.Fprintf(out, "%-5s  loop      %2d of 30 orders served with %3d calls\n", state, served, calls.Swap(0))
		served = serve(envelope.HTTP(nil), 1, other.URL+"/"+state) // it repeats, so the caller does not
		fmt.Fprintf(out, "%-5s  envelope  %2d of 30 orders served with %3d calls\n", state, served, calls.Swap(0))
	}
	return nil
}

// serve handles 30 orders, with up to so many tries of its own for each.
func serve(c *http.Client, tries int, url string) (served int) {
	for range 30 {
		for range tries {
			resp, err := c.Get(url) //nolint:noctx // as one writes it first
			if err == nil && resp.Body.Close() == nil && resp.StatusCode == http.StatusOK {
				served++
				break
			}
		}
	}
	return served
}
