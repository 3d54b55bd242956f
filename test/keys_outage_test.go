//go:build integration

package test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// cases/events.md 9: while the store is away, what cannot be claimed is not carried
// out, unless the route says so. Nothing that was recorded is lost, and the answer of a
// call that went on meanwhile is given, and recorded when the store is back.
func TestCase_Events_A9_OnEveryEngine(t *testing.T) {
	onEngines(t, func(t *testing.T, p place, key func(string) string) {
		arrived, leave := make(chan struct{}), make(chan struct{})
		l := newLedger(t, nil, func(k string, _ *http.Request) {
			if strings.HasSuffix(k, "slow") {
				close(arrived)
				<-leave
			}
		})
		p, away, back := p.breakable(t)
		g := keyed(t, p, l.url, "")
		ask := func(path, k string) said { return post(context.Background(), g.url+path, "a", key(k), "apple") }
		outcome := func(o string) int { return int(g.metric(t, `comporta_idempotency_total{outcome="`+o+`"}`)) }
		before := ask("/orders", "before")
		if before.status != 201 {
			t.Fatalf("%+v", before)
		}
		slow := make(chan said, 1)
		go func() { slow <- ask("/orders", "slow") }()
		<-arrived

		away()
		close(leave)
		news := []string{"new1", "new2", "new3", "new4"}
		var refused atomic.Int64
		unavailable := func(s said) bool {
			if s.status != 503 || s.code != "idempotency_unavailable" || s.after <= 0 {
				return false
			}
			refused.Add(1)
			return true
		}
		var all sync.WaitGroup
		for _, k := range news {
			all.Go(func() {
				if s := ask("/orders", k); !unavailable(s) {
					t.Errorf("without a store: %+v", s)
				}
			})
		}
		all.Wait()
		for range 2 {
			if s := ask("/lenient", "lenient"); s.status != 201 || s.replayed { // on_store_failure: pass
				t.Errorf("without a store, unprotected: %+v", s)
			}
		}
		if s := ask("/orders", "before"); !unavailable(s) && (!s.replayed || s.body != before.body) { // it may be known without the store
			t.Errorf("what was recorded, without a store: %+v", s)
		}
		first := <-slow
		if first.status != 201 || first.replayed {
			t.Errorf("the call that went on: %+v", first)
		}
		if s := ask("/orders", "slow"); s.status != 409 || s.code != "idempotency_in_progress" {
			t.Errorf("what is not recorded yet: %+v", s)
		}
		if r, u, n := outcome("store_refused"), outcome("store_passed"), outcome("unrecorded"); int64(r) != refused.Load() || u != 2 || n != 1 {
			t.Errorf("%d refused (%d were told), %d passed, %d unrecorded", r, refused.Load(), u, n)
		}
		for _, k := range news {
			if n := l.of(key(k)); n != 0 {
				t.Errorf("%s was refused, and carried out %d times", k, n)
			}
		}

		back()
		eventually(t, "keys are claimed again", func() bool { return ask("/orders", news[0]).status == 201 })
		eventually(t, "the answer is recorded", func() bool { return ask("/orders", "slow").replayed })
		ask("/lenient", "lenient")
		for _, k := range news {
			ask("/orders", k)
		}
		g = g.anew(t, l.url)
		for _, k := range append(news, "before", "slow", "lenient") {
			path, times := "/orders", 1
			if k == "lenient" {
				path, times = "/lenient", 3
			}
			want := fmt.Sprintf("%s, time %d, for a: apple", key(k), times)
			if s := ask(path, k); s.status != 201 || !s.replayed || s.body != want || l.of(key(k)) != times {
				t.Errorf("%s, after the store is back, carried out %d times: %+v", k, l.of(key(k)), s)
			}
		}
	})
}
