package gate_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate"
	"github.com/comporta/comporta/gate/admission"
)

// A service that can work on one request at a time, and what the second caller
// is told.
func ExampleGate_Wrap() {
	busy, done := make(chan struct{}), make(chan struct{})
	service := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(busy)
		<-done
	})
	g, err := gate.New(gate.Config{Admission: gate.Admission{Capacity: 1}}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	protected := g.Wrap(service)

	var first sync.WaitGroup
	first.Go(func() {
		protected.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/orders/1", http.NoBody))
	})
	<-busy

	answer := httptest.NewRecorder()
	protected.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/orders/2", http.NoBody)) // waits 100 ms for its turn
	close(done)
	first.Wait()

	var p comporta.Problem
	if err := json.Unmarshal(answer.Body.Bytes(), &p); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answer.Code, p.Code, "retryable:", p.Retryable, "attempts:", p.ObservedAttempts)
	fmt.Println("an instant of its own:", p.RetryAfterMs > 0 && answer.Header().Get("Retry-Ticket") != "")
	// Output:
	// 503 capacity_exhausted retryable: true attempts: 1
	// an instant of its own: true
}

// The core without a transport: a queue consumer, a gRPC interceptor or a
// simulator decides the same way, on its own clock.
func ExampleGate_Begin() {
	g, err := gate.New(gate.Config{Admission: gate.Admission{Capacity: 1, QueueWait: -1}}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Date(2026, time.March, 14, 15, 9, 26, 0, time.UTC)
	ask := func(at time.Time) gate.Decision {
		return g.Begin(at, &comporta.Request{
			Method: "POST", Host: "shop.example", Path: "/orders",
			Header: http.Header{"Idempotency-Key": {"order-7"}},
		})
	}
	first := ask(now)
	fmt.Println(first.Action)

	twin := ask(now.Add(10 * time.Millisecond)) // sent again while the first still runs
	fmt.Println(twin.Action, twin.Reason, "told when:", twin.Wait > 0)

	first.FinishAt(now.Add(40*time.Millisecond), comporta.Outcome{
		Status: http.StatusCreated, Result: comporta.ResultSuccess, Latency: 40 * time.Millisecond,
	})
	again := ask(now.Add(time.Second)) // it succeeded meanwhile: asking again is a poll
	fmt.Println(again.Action)
	// Output:
	// admit
	// refuse capacity_exhausted told when: true
	// admit
}

// The first day: observe mode decides and counts, and lets everybody in.
func ExampleConfig_observe() {
	g, err := gate.New(gate.Config{Admission: gate.Admission{
		Mode: admission.ModeObserve, Capacity: 1, QueueWait: -1,
	}}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Date(2026, time.March, 14, 15, 9, 26, 0, time.UTC)
	for range 3 { // none of them ends
		d := g.Begin(now, &comporta.Request{Method: "POST", Path: "/orders", Header: http.Header{"Idempotency-Key": {"k"}}})
		fmt.Println(d.Action, d.WouldRefuse)
	}
	// Output:
	// admit none
	// admit capacity_exhausted
	// admit capacity_exhausted
}
