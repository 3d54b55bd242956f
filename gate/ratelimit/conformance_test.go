package ratelimit_test

import (
	"testing"

	"github.com/comporta/comporta/gate/ratelimit"
	"github.com/comporta/comporta/gate/ratelimit/limittest"
)

func TestTableIsAStore(t *testing.T) {
	limittest.Run(t, limittest.Features{}, func(t testing.TB) ratelimit.Store {
		table, err := ratelimit.NewTable(ratelimit.MinKeys)
		if err != nil {
			t.Fatal(err)
		}
		return table
	})
}
