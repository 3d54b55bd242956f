// Command flaky serves orders that need a flaky service, with the loop that one
// writes first and with the envelope: go run ./examples/flaky
package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"

	"github.com/comporta/comporta/client"
)

func main() { run(os.Stdout) }

func run(out io.Writer) {
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
		log.Fatal(err)
	}
	for _, state := range []string{"flaky", "down"} {
		served := serve(http.DefaultClient, 10, other.URL+"/"+state)
		fmt.Fprintf(out, "%-5s  loop      %2d of 30 orders served with %3d calls\n", state, served, calls.Swap(0))
		served = serve(envelope.HTTP(nil), 1, other.URL+"/"+state) // it repeats, so the caller does not
		fmt.Fprintf(out, "%-5s  envelope  %2d of 30 orders served with %3d calls\n", state, served, calls.Swap(0))
	}
}

// serve handles 30 orders, with up to so many tries of its own for each.
func serve(c *http.Client, tries int, url string) (served int) {
	for range 30 {
		for range tries {
			if resp, err := c.Get(url); err == nil && resp.Body.Close() == nil && resp.StatusCode == http.StatusOK {
				served++
				break
			}
		}
	}
	return served
}
