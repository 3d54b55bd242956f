package ratelimit

import (
	"context"
	"net/http"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/comporta/comporta"
)

// t0 is where virtual time begins.
var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func ms(n int64) time.Time { return t0.Add(time.Duration(n) * time.Millisecond) }

func perSecond(n, burst int64) Limit { return Limit{Rate: Rate{n, time.Second}, Burst: burst} }

func newBucket(t testing.TB, l Limit) *Bucket {
	t.Helper()
	b, err := NewBucket(BucketConfig{Limit: l, Keys: MinKeys})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func take(t testing.TB, b *Bucket, now time.Time, n int64) Result {
	t.Helper()
	r, err := b.TakeAt(now, "k", n)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// admitted counts what a bucket admits of calls of cost 1 at one instant.
func admitted(t testing.TB, b *Bucket, now time.Time, calls int) (n int) {
	t.Helper()
	for range calls {
		if take(t, b, now, 1).Allowed {
			n++
		}
	}
	return n
}

func newTable(t testing.TB) *Table {
	t.Helper()
	table, err := NewTable(MinKeys)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func newLimiter(t testing.TB, table *Table, rules ...Rule) *Limiter {
	t.Helper()
	l, err := New(t0, Config{Rules: rules}, table)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// from is a request of an anonymous client.
func from(addr string) *comporta.Request {
	a := netip.MustParseAddr(addr)
	return &comporta.Request{
		Method: "GET", Host: "example.com", Path: "/", Header: http.Header{}, Remote: a, Client: comporta.Client{Addr: a},
	}
}

// known is a request of a believed client.
func known(key uint64) *comporta.Request {
	r := from("192.0.2.1")
	r.Client.Key, r.Client.Class = key, comporta.ClassProven
	return r
}

// ask says what a limiter lets pass of so many equal requests.
func ask(l *Limiter, now time.Time, r *comporta.Request, calls int) (passed int, v Verdict) {
	for range calls {
		if l.TakeAt(context.Background(), now, r, &v) {
			passed++
		}
	}
	return passed, v
}

func left(l *Limiter, now time.Time, r *comporta.Request) string {
	var v Verdict
	l.PeekAt(context.Background(), now, r, &v)
	return string(v.AppendLimit(nil))
}

func itoa(n int) string { return strconv.Itoa(n) }
