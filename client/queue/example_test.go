package queue_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/comporta/comporta/client/queue"
)

// An order is taken while nothing answers, and is sent later, once.
func Example() {
	dir, err := os.MkdirTemp("", "orders")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	q, err := queue.Open(queue.Config{Path: filepath.Join(dir, "orders.queue")})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer q.Close()

	if _, err := q.Enqueue(queue.Entry{Payload: []byte("two coffees")}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("waiting:", q.Stats().Waiting)

	ctx, cancel := context.WithCancel(context.Background())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("attempt", r.Header.Get("Retry-Attempt"), "with a key:", r.Header.Get("Idempotency-Key") != "")
		w.WriteHeader(http.StatusCreated)
	}))
	defer server.Close()
	send := queue.HTTP(server.Client(), func(ctx context.Context, item queue.Item) (*http.Request, error) {
		return http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/orders", bytes.NewReader(item.Payload))
	})
	err = q.Run(ctx, func(ctx context.Context, item queue.Item) queue.Result {
		defer cancel() // one is enough for an example
		return send(ctx, item)
	})
	fmt.Println(err, "- waiting:", q.Stats().Waiting)
	// Output:
	// waiting: 1
	// attempt 0 with a key: true
	// context canceled - waiting: 0
}
