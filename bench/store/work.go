package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/comporta/comporta/store"
)

// work is what callers do to an engine.
type work struct {
	keys    store.Keys
	callers int
	next    atomic.Uint64 // the number of the next key
	answer  store.Answer
	waits   [callers][]time.Duration // of each caller, for a claim and an answer together
}

// numbers keep the keys of one work apart from those of another.
var numbers atomic.Uint64

func newWork(keys store.Keys, n int) *work {
	w := &work{keys: keys, callers: n, answer: store.Answer{
		Status: 201, Header: []byte("Content-Type: application/json\r\nLocation: /orders/1\r\n"), Body: bytes.Repeat([]byte("x"), 512),
	}}
	w.next.Store(numbers.Add(1) << 40)
	return w
}

// spread has each caller do its part of n.
func (w *work) spread(n int, do func(caller int) error) error {
	var wg sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(n))
	errs := make([]error, w.callers)
	for c := range w.callers {
		wg.Go(func() {
			for left.Add(-1) >= 0 && errs[c] == nil {
				errs[c] = do(c)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// nameOf spreads numbers over all names, as the hash of a key does.
func nameOf(number uint64) (n store.Name) {
	for i := 0; i < len(n); i += 8 {
		binary.BigEndian.PutUint64(n[i:], (number+uint64(i))*0x9e3779b97f4a7c15)
	}
	return n
}

// once is n requests, each with a new key.
func (w *work) once(n int) error {
	ctx := context.Background()
	return w.spread(n, func(caller int) error {
		c := store.Claim{
			Name: nameOf(w.next.Add(1)), Fence: store.NewFence(), Lease: 30 * time.Second, TTL: 24 * time.Hour,
			Fingerprint: w.answer.Body[:32],
			Label:       store.Label{Client: "3f2a9c81d04e7b65", Method: "POST", Route: "POST /orders", Key: "7f9c24e5-2b0a-4b3e-9d3c-1f4e6a8b0c2d"},
		}
		began := time.Now()
		got, err := w.keys.Claim(ctx, began, c)
		if err != nil || !got.Granted {
			return fmt.Errorf("claim: granted %v: %w", got.Granted, err)
		}
		err = w.keys.Finish(ctx, time.Now(), store.Hold{Name: c.Name, Fence: c.Fence}, store.Finish{Answer: w.answer, TTL: 24 * time.Hour})
		w.waits[caller] = append(w.waits[caller], time.Since(began))
		return err
	})
}

// repeat is n repeats, of keys that are finished.
func (w *work) repeat(n int) error {
	ctx := context.Background()
	last := w.next.Load()
	var i atomic.Uint64
	return w.spread(n, func(int) error {
		r, err := w.keys.Look(ctx, time.Now(), nameOf(last-i.Add(1)%500))
		if err == nil && len(r.Answer.Body) != len(w.answer.Body) {
			err = fmt.Errorf("an answer of %d bytes", len(r.Answer.Body))
		}
		return err
	})
}

// wait returns a quantile of the waits.
func (w *work) wait(q float64) time.Duration {
	all := slices.Concat(w.waits[:]...)
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[int(q*float64(len(all)-1))]
}
