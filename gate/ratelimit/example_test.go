package ratelimit_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate/ratelimit"
)

func ExampleBucket() {
	rate, err := ratelimit.ParseRate("10/s")
	if err != nil {
		fmt.Println(err)
		return
	}
	b, err := ratelimit.NewBucket(ratelimit.BucketConfig{Limit: ratelimit.Limit{Rate: rate, Burst: 2}})
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for range 3 {
		r, err := b.TakeAt(now, "user-1", 1)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(r.Allowed, r.Remaining, r.Wait)
	}
	// Output:
	// true 1 0s
	// true 0 0s
	// false 0 100ms
}

func ExampleLimiter() {
	table, err := ratelimit.NewTable(100_000)
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	l, err := ratelimit.New(now, ratelimit.Config{Rules: []ratelimit.Rule{
		{Name: "per-client", Limit: ratelimit.Limit{Rate: ratelimit.Rate{Count: 100, Per: time.Second}, Burst: 200}},
		{Name: "orders", Match: ratelimit.Match{Path: "/orders"}, Quota: ratelimit.Quota{Units: 1000, Period: ratelimit.Day, Fixed: true}},
	}}, table)
	if err != nil {
		fmt.Println(err)
		return
	}
	r := comporta.Request{Method: "POST", Path: "/orders", Remote: netip.MustParseAddr("192.0.2.1")}
	var v ratelimit.Verdict
	fmt.Println(l.TakeAt(context.Background(), now, &r, &v))
	fmt.Printf("RateLimit-Policy: %s\n", v.AppendPolicy(nil))
	fmt.Printf("RateLimit: %s\n", v.AppendLimit(nil))
	// Output:
	// true
	// RateLimit-Policy: "per-client";q=200;w=2, "orders/quota";q=1000;w=86400
	// RateLimit: "per-client";r=199;t=1, "orders/quota";r=999;t=43200
}

func ExampleMiddleware() {
	table, err := ratelimit.NewTable(0)
	if err != nil {
		fmt.Println(err)
		return
	}
	l, err := ratelimit.New(time.Now(), ratelimit.Config{Rules: []ratelimit.Rule{
		{Name: "hourly", Limit: ratelimit.Limit{Rate: ratelimit.Rate{Count: 1, Per: time.Hour}}},
	}}, table)
	if err != nil {
		fmt.Println(err)
		return
	}
	limited, err := ratelimit.Middleware(ratelimit.MiddlewareConfig{Limiter: l})
	if err != nil {
		fmt.Println(err)
		return
	}
	h := limited(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "hello") }))
	for range 2 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
		fmt.Printf("%d, Retry-After %q\n", w.Code, w.Header().Get("Retry-After"))
	}
	// Output:
	// 200, Retry-After ""
	// 429, Retry-After "3600"
}
