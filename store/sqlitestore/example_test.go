package sqlitestore_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/comporta/comporta/store"
	"github.com/comporta/comporta/store/sqlitestore"
)

// An operation is claimed, carried out and answered; who repeats it meets the
// answer.
func Example() {
	dir, err := os.MkdirTemp("", "state")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	s, err := sqlitestore.Open(ctx, sqlitestore.Config{Path: filepath.Join(dir, "state.db")})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()

	for range 2 {
		c := store.Claim{Name: store.Name{1}, Fence: store.NewFence(), Lease: time.Minute, TTL: time.Hour}
		got, err := s.Claim(ctx, time.Now(), c)
		if err != nil {
			fmt.Println(err)
			return
		}
		if !got.Granted {
			fmt.Printf("%v: %s\n", got.Record.State, got.Record.Answer.Body)
			return
		}
		fmt.Println("carried out")
		answer := store.Finish{TTL: 24 * time.Hour, Answer: store.Answer{Status: 201, Body: []byte("order 1")}}
		if err := s.Finish(ctx, time.Now(), store.Hold{Name: c.Name, Fence: c.Fence}, answer); err != nil {
			fmt.Println(err)
			return
		}
	}
	// Output:
	// carried out
	// finished: order 1
}
