package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/comporta/comporta/gate/idempotency"
	"github.com/comporta/comporta/store"
	"github.com/comporta/comporta/store/memstore"
)

func TestDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, err := idempotency.New(idempotency.Config{Store: memstore.New(memstore.Config{}), MaxBody: 10})
		if err != nil {
			t.Fatal(err)
		}
		calls := 0
		do := func(task idempotency.Task, out string, fail error) (string, error) {
			b, err := k.Do(t.Context(), task, func(context.Context) ([]byte, error) {
				calls++
				return []byte(out), fail
			})
			return string(b), err
		}
		wants := func(what string, gotCalls int, err, want error) {
			t.Helper()
			if calls != gotCalls || !errors.Is(err, want) {
				t.Errorf("%s: %d calls, %v; want %d, %v", what, calls, err, gotCalls, want)
			}
		}
		task := idempotency.Task{Scope: "acme", Key: "k", Input: []byte("10 euros")}
		first, err := do(task, "paid", nil)
		wants("first", 1, err, nil)
		again, err := do(task, "paid twice", nil)
		wants("again", 1, err, nil)
		if first != "paid" || again != "paid" {
			t.Errorf("%s, %s", first, again)
		}
		other := task
		other.Input = []byte("20 euros")
		_, err = do(other, "", nil)
		wants("another input", 1, err, idempotency.ErrMismatch)
		_, err = do(idempotency.Task{Scope: "other", Key: "k"}, "", nil)
		wants("another scope", 2, err, nil)

		refused := errors.New("no funds")
		_, err = do(idempotency.Task{Key: "fails"}, "", refused)
		wants("an error", 3, err, refused)
		_, err = do(idempotency.Task{Key: "fails"}, "", nil)
		wants("an error frees the key", 4, err, nil)

		_, err = do(idempotency.Task{Key: "lost"}, "", fmt.Errorf("no answer: %w", idempotency.ErrUnknown))
		wants("in doubt", 5, err, idempotency.ErrUnknown)
		_, err = do(idempotency.Task{Key: "lost", Policy: idempotency.Policy{Wait: true}}, "", nil)
		wants("under its lease", 5, err, idempotency.ErrInProgress)
		if busy := new(idempotency.InProgressError); !errors.As(err, &busy) || busy.RetryAfter <= 0 || !strings.Contains(err.Error(), "again in") {
			t.Errorf("%v", err)
		}
		time.Sleep(idempotency.DefaultLease + time.Second)
		_, err = do(idempotency.Task{Key: "lost"}, "", nil)
		wants("after its lease", 5, err, idempotency.ErrUnknown)
		_, err = do(idempotency.Task{Key: "lost", Policy: idempotency.Policy{ExecuteUnknown: true}}, "", nil)
		wants("execute", 6, err, nil)

		_, err = do(idempotency.Task{Key: "large"}, "more than ten bytes", nil)
		wants("large", 7, err, nil)
		_, err = do(idempotency.Task{Key: "large"}, "", nil)
		wants("large again", 7, err, store.ErrTooLarge)

		for _, key := range []string{"", strings.Repeat("k", 256)} {
			if _, err := do(idempotency.Task{Key: key}, "", nil); err == nil {
				t.Errorf("a key of %d bytes", len(key))
			}
		}
		func() {
			defer func() { _ = recover() }()
			_, _ = k.Do(t.Context(), idempotency.Task{Key: "panics"}, func(context.Context) ([]byte, error) { panic("oops") })
		}()
		_, err = do(idempotency.Task{Key: "panics"}, "", nil)
		wants("after a panic", 7, err, idempotency.ErrInProgress)
		if err := k.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
