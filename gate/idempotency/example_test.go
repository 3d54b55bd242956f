package idempotency_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/comporta/comporta/gate/idempotency"
	"github.com/comporta/comporta/store/memstore"
)

// One who repeats an order gets the first answer; there is one order.
func Example() {
	k, err := idempotency.New(idempotency.Config{Store: memstore.New(memstore.Config{})})
	if err != nil {
		fmt.Println(err)
		return
	}
	once, err := k.Middleware(idempotency.Face{Policy: idempotency.Policy{Require: true}})
	if err != nil {
		fmt.Println(err)
		return
	}
	orders := 0
	service := once(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		orders++
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, "order %d", orders)
	}))
	for range 2 {
		r := httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader("an apple"))
		r.Header.Set("Idempotency-Key", "d3b07384")
		w := httptest.NewRecorder()
		service.ServeHTTP(w, r)
		fmt.Printf("%d %s, replayed: %q\n", w.Code, w.Body, w.Header().Get("Idempotency-Replayed"))
	}
	// Output:
	// 201 order 1, replayed: ""
	// 201 order 1, replayed: "true"
}

func ExampleDo() {
	s := memstore.New(memstore.Config{})
	for range 2 {
		receipt, err := idempotency.Do(context.Background(), s, "invoice-7", func(context.Context) ([]byte, error) {
			fmt.Println("paying")
			return []byte("receipt 1"), nil
		})
		fmt.Println(string(receipt), err)
	}
	// Output:
	// paying
	// receipt 1 <nil>
	// receipt 1 <nil>
}
