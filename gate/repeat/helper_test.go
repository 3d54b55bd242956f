package repeat

import (
	"net/http"
	"testing"
	"time"

	"github.com/comporta/comporta"
)

// noon is where virtual time begins; it falls on a tick.
var noon = time.Date(2026, 3, 3, 12, 0, 0, 0, time.UTC)

func newDetector(t testing.TB, c Config) *Detector {
	t.Helper()
	table, err := NewTable(MinBytes)
	if err != nil {
		t.Fatal(err)
	}
	d, err := New(c, table)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// get returns a GET by a proven, per-user client.
func get(path string) *comporta.Request {
	return &comporta.Request{
		Method: http.MethodGet, Host: "api.example", Path: path, Route: 1,
		Client: comporta.Client{Key: 7, Class: comporta.ClassProven},
	}
}

// post returns a POST with a body by the same client.
func post(path string) *comporta.Request {
	r := get(path)
	r.Method, r.BodySize = http.MethodPost, 12
	return r
}

func keyed(r *comporta.Request, key string) *comporta.Request {
	r.IdempotencyKey = key
	return r
}

func answered(status int) comporta.Outcome {
	return comporta.Outcome{Status: status, Result: comporta.ResultOf(status), Latency: 20 * time.Millisecond}
}

func ended(result comporta.Result, latency time.Duration) comporta.Outcome {
	return comporta.Outcome{Result: result, Latency: latency}
}

// again is a fresh request for the same thing.
func again(r *comporta.Request) *comporta.Request {
	c := *r
	c.Sighting = comporta.Sighting{}
	return &c
}

// run sees r and resolves it at once.
func run(d *Detector, now time.Time, r *comporta.Request, digest uint64, o comporta.Outcome) bool {
	d.SeeAt(now, r, digest, false)
	return d.ResolveAt(now, r, o)
}

func kindAt(d *Detector, now time.Time, r *comporta.Request, digest uint64) comporta.Kind {
	r = again(r)
	d.SeeAt(now, r, digest, false)
	return r.Sighting.Kind
}
