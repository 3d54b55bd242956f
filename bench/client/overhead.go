package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/comporta/comporta/bench/internal/measure"
)

// memory is a service in memory: the answer is there.
type memory struct{ answer http.Response }

// RoundTrip implements http.RoundTripper.
func (m *memory) RoundTrip(*http.Request) (*http.Response, error) {
	answer := m.answer
	return &answer, nil
}

func inMemory() direct {
	return direct{&memory{http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody}}}
}

// overhead is what a call that succeeds costs with and without a client's
// envelope. The pair's Ours is the client, its Theirs a plain http.Client.
type overhead struct {
	name          string
	bounded, free measure.Pair // with a deadline in the call's context, and without
}

// fewLines are the header lines of a small request, manyLines those of one that
// came through tracing, authentication and a browser's habits.
const (
	fewLines  = 2
	manyLines = 12
)

// overheads makes one for every contestant but net/http itself, and one more for
// everything on and a request with a long header, which net/http keeps in a map of
// another kind.
func overheads(ctx context.Context) ([]overhead, error) {
	var all []overhead
	add := func(c contestant, name string, lines int) error {
		d, err := c.make(inMemory())
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		bounded, cancel := context.WithTimeout(ctx, time.Hour)
		context.AfterFunc(ctx, cancel)
		all = append(all, overhead{
			name:    name,
			bounded: measure.Pair{What: name, Ours: success(bounded, name, d, lines), Theirs: success(bounded, "net/http", plain(inMemory()), lines)},
			free:    measure.Pair{What: name, Ours: success(ctx, name, d, lines), Theirs: success(ctx, "net/http", plain(inMemory()), lines)},
		})
		return nil
	}
	for _, c := range contestants() {
		if c.name == "net/http" {
			continue
		}
		if err := add(c, c.name, fewLines); err != nil {
			return nil, err
		}
	}
	full := contestants()[1]
	return all, add(full, fmt.Sprintf("%s; %d header lines in the request", full.name, manyLines), manyLines)
}

// success makes one call with so many header lines again and again.
func success(ctx context.Context, name string, d doer, lines int) *measure.Subject {
	return &measure.Subject{Name: name, Run: func(n int) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://api.example/v1/orders/17?expand=items", http.NoBody)
		if err != nil {
			return err
		}
		req.Header.Set("Accept", "application/json")
		req.Header.Set("Authorization", "Bearer token")
		for i := len(req.Header); i < lines; i++ {
			req.Header.Set(fmt.Sprintf("X-Line-%d", i), "value")
		}
		for range n {
			resp, err := d.Do(req)
			if err != nil {
				return err
			}
			if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
				return fmt.Errorf("status %d: %w", resp.StatusCode, err)
			}
		}
		return nil
	}}
}

// over is what the first of a pair costs more than the second.
func over(p measure.Pair) measure.Sample {
	with, bare := p.Ours.Summary(), p.Theirs.Summary()
	return measure.Sample{NS: with.NS - bare.NS, CPU: with.CPU - bare.CPU, Allocs: with.Allocs - bare.Allocs, Bytes: with.Bytes - bare.Bytes}
}
