package redislimit

import (
	"testing"

	"github.com/comporta/comporta/gate/ratelimit"
	"github.com/comporta/comporta/gate/ratelimit/limittest"
)

func TestStoreIsAStore(t *testing.T) {
	for name, lanes := range map[string]int{"Single": 1, "Cluster": clusterLanes} {
		t.Run(name, func(t *testing.T) {
			c := newClock()
			limittest.Run(t, limittest.Features{OwnClock: true, Advance: c.Advance}, func(t testing.TB) ratelimit.Store {
				return fakeLanes(t, newServer(c.Now), Config{}, lanes)
			})
		})
	}
}
