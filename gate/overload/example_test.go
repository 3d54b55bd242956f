package overload_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate/overload"
)

func ExampleWriter() {
	refusals, err := overload.New(overload.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/orders", http.NoBody)
	refusals.Write(w, r, &overload.Refusal{
		Reason:   comporta.CapacityExhausted,
		Wait:     36412 * time.Millisecond,
		Attempts: 3,
	})
	fmt.Println(w.Code, w.Header().Get("Retry-After"))
	fmt.Print(w.Body)
	// Output:
	// 503 37
	// {"type":"https://github.com/comporta/comporta/blob/main/docs/problems.md#capacity_exhausted","title":"Capacity exhausted","status":503,"code":"capacity_exhausted","retryable":true,"retry_after_s":37,"retry_after_ms":36412,"observed_attempts":3}
}

// A service's 503 names 5 s; the gate's calendar has no room before 12.5 s.
func ExampleDecorate() {
	h := http.Header{"Retry-After": {"5"}}
	overload.Decorate(h, http.StatusServiceUnavailable, &overload.Decoration{
		Now: time.Now(),
		Slot: func(time.Duration) (time.Duration, []byte) {
			return 12500 * time.Millisecond, []byte("v1.ticket")
		},
	})
	fmt.Println(h.Get("Retry-After"), h.Get("Retry-After-Ms"), h.Get("Retry-Ticket"))
	// Output: 13 12500 v1.ticket
}

func ExampleDeterministic() {
	pay := func(w http.ResponseWriter, r *http.Request) {
		overload.Deterministic(w, r, http.StatusUnprocessableEntity, "unknown_currency", "currency XYZ does not exist")
	}
	w := httptest.NewRecorder()
	pay(w, httptest.NewRequest(http.MethodPost, "/payments", http.NoBody))
	fmt.Println(w.Code, w.Header().Get("X-Should-Retry"), w.Header().Get("Retry-After") == "")
	fmt.Print(w.Body)
	// Output:
	// 422 false true
	// {"type":"about:blank","title":"Unprocessable Entity","status":422,"detail":"currency XYZ does not exist","code":"unknown_currency","retryable":false}
}
