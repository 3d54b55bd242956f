package redislimit

import (
	"context"
	"testing"
	"time"

	"github.com/comporta/comporta/gate/ratelimit"
)

// A decision that needs no round trip.
func BenchmarkTakeFromLease(b *testing.B) {
	c := newClock()
	n := newNode(b, newServer(c.Now), c, Config{}, ratelimit.Policy{Limit: per(1_000_000_000, time.Second, 1_000_000_000)})
	for range 50_000 {
		n.take("hot", 1)
	}
	debits, results := []ratelimit.Debit{{Policy: n.policy, Key: []byte("hot"), Cost: 1, Believed: true}}, make([]ratelimit.Result, 1)
	now := c.Now()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := n.Take(context.Background(), now, debits, results); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTakeDenied(b *testing.B) {
	c := newClock()
	n := newNode(b, newServer(c.Now), c, Config{}, ratelimit.Policy{Limit: per(10, time.Hour, 10)})
	for n.take("k", 1) {
	}
	debits, results := []ratelimit.Debit{{Policy: n.policy, Key: []byte("k"), Cost: 1, Believed: true}}, make([]ratelimit.Result, 1)
	now := c.Now()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := n.Take(context.Background(), now, debits, results); err != nil {
			b.Fatal(err)
		}
	}
}

// Keys that nobody has seen, in a full memory.
func BenchmarkTakeInventedKey(b *testing.B) {
	c := newClock()
	n := newNode(b, newServer(c.Now), c, Config{}, ratelimit.Policy{Limit: per(10, time.Hour, 10)})
	key := make([]byte, 8)
	debits, results := []ratelimit.Debit{{Policy: n.policy, Key: key, Cost: 1}}, make([]ratelimit.Result, 1)
	now, i := c.Now(), 0
	b.ReportAllocs()
	for b.Loop() {
		i++
		key[0], key[1], key[2], key[3] = byte(i), byte(i>>8), byte(i>>16), byte(i>>24)
		if _, err := n.Take(context.Background(), now, debits, results); err != nil {
			b.Fatal(err)
		}
	}
}
