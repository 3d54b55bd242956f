package client_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/comporta/comporta/client"
	"github.com/comporta/comporta/client/retry"
)

func ExampleClient() {
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls++
		switch {
		case r.URL.Path == "/busy" && r.Header.Get("Retry-Attempt") == "0":
			w.Header().Set("Retry-After-Ms", "5")
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Path == "/broken":
			w.Header().Set("X-Should-Retry", "false")
			w.WriteHeader(http.StatusInternalServerError)
		case r.URL.Path == "/later":
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()

	c, err := client.New(client.Config{Version: "acme-app/2.4.1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	calling := c.HTTP(nil)
	defer calling.CloseIdleConnections()
	for _, path := range []string{"/", "/busy", "/broken", "/later"} {
		resp, err := calling.Get(server.URL + path)
		if err != nil {
			fmt.Println(err)
			return
		}
		report := client.Report(resp)
		fmt.Println(path, resp.StatusCode, report.Attempts, report.Reason)
		_ = resp.Body.Close()
	}
	// Output:
	// / 200 1 none
	// /busy 200 2 none
	// /broken 500 1 server
	// /later 503 1 too_far
}

// Whatever is wrong with a configuration is said at once.
func ExampleNew_impossible() {
	_, err := client.New(client.Config{Version: "acme", Policy: retry.Policy{MaxAttempts: 1000}})
	fmt.Println(strings.Count(err.Error(), "\n")+1, "problems")
	_, err = client.New(client.Config{Version: "acme"})
	fmt.Println(err, errors.Is(err, retry.ErrGaveUp))
	// Output:
	// 2 problems
	// client: Version: "acme" is not name/semver; write it like acme-app/2.4.1 false
}
