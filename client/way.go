package client

import (
	"context"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// way follows a request that is not idempotent to its connection. Up to there a
// repeat is safe; after it bytes may have been written, and none can follow.
type way struct{ asked, got atomic.Bool }

// watch returns ctx with a trace of the way. The way to a connection is bounded
// like an attempt that can be repeated, so that there is time for another one;
// with the connection the attempt gets all the time that its request says.
func (a *attempt) watch(ctx context.Context, now time.Time) context.Context {
	c := a.call()
	repeatable := c.op
	repeatable.Idempotent = true
	all, toConnect := a.context.until, a.began+c.policy.AttemptAt(now, &repeatable)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) {
			if a.way.asked.Store(true); !a.way.got.Load() { // else net/http found a dead connection, and tries another
				a.context.move(toConnect)
			}
		},
		GotConn: func(httptrace.GotConnInfo) {
			a.way.got.Store(true)
			a.context.move(all)
		},
	})
}

// wroteNothing reports that no byte was written, for certain: the transport tells
// of its connections, and had none.
func (w *way) wroteNothing() bool { return w.asked.Load() && !w.got.Load() }
