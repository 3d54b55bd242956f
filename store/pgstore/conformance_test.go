//go:build integration

package pgstore

import (
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/comporta/comporta/store"
	"github.com/comporta/comporta/store/storetest"
)

// later moves everything that a schema holds into the past: to the store it is as
// if the database's clock had moved on.
func later(tb testing.TB, schema string, d time.Duration) {
	tb.Helper()
	admin(tb, fmt.Sprintf(`UPDATE %q.idempotency SET created = created - %[2]d * interval '1 microsecond',
		lease_until = lease_until - %[2]d * interval '1 microsecond', expires = expires - %[2]d * interval '1 microsecond',
		finished = finished - %[2]d * interval '1 microsecond'`, schema, d.Microseconds()))
}

func TestKeys(t *testing.T) {
	for name, address := range map[string]string{
		"Prepared":      where(t),
		"ThroughPooler": service(t, "COMPORTA_TEST_PGBOUNCER_URL") + "&default_query_exec_mode=exec",
	} {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t)
			var current string
			features := storetest.Features{OwnClock: true, Advance: func(d time.Duration) { later(t, current, d) }}
			storetest.Keys(t, features, func(t testing.TB) storetest.Engine {
				current = schema(t)
				return storetest.Engine{Shared: true, Open: func(t testing.TB) store.Keys {
					s, err := Open(t.Context(), Config{URL: address, Schema: current, Timeout: time.Minute})
					if err != nil {
						t.Fatal(err)
					}
					return s
				}}
			})
		})
	}
}
