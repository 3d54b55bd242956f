// Package redislimit shares rate limits between processes through Redis: a
// ratelimit.Store that costs a fraction of a round trip per decision, and says
// by how much it may err.
//
// # Basics
//
// A [Store] stands behind ratelimit.Config.Stores, or alone:
//
//	where, err := redislimit.ParseURL("redis://127.0.0.1:6379/0")
//	store, err := redislimit.New(ctx, redislimit.Config{Redis: where, Secret: secret})
//	defer store.Close(ctx)
//	limiter, err := ratelimit.New(now, ratelimit.Config{
//		Stores: map[string]ratelimit.Store{"shared": store},
//		Rules:  []ratelimit.Rule{{Name: "api", Limit: limit, Store: "shared", OnFailure: ratelimit.FailLocal}},
//	}, table)
//
// A key is one instant in Redis, as in package ratelimit, in whole ticks of a
// microsecond by the clock of the Redis server; the clocks of the nodes only
// measure spans. One script decides for everything that queued while the one
// before it was under way: there is no timer, so a lone call waits for nobody,
// and a crowd shares round trips.
//
// Most decisions need no round trip at all:
//
//   - A key that a node has not seen lately is granted a few units here (its
//     allowance), which are reported to Redis within one Period, or with the next
//     question if that comes first.
//   - A key that asks again and again gets a lease: units that Redis has counted
//     already and that this node spends within a Period. What is left goes back.
//   - A key that cannot pay is told so from memory, until the instant at which it
//     could.
//
// # The bound
//
// With N live nodes, a limit of C units refilled at r, and Period T, any window
// of length W admits at most
//
//	C + r·W + min(N·L, r·T)
//
// where L, the most that one node may hold of one key, is r·T/2 but at least 1
// and at most C/2N. Where r·T is below N the last term is N: one unit a node.
// It grows by C each time Redis loses its memory.
// While k of N nodes cannot reach Redis, rules with ratelimit.FailLocal admit a
// further share of C + r·P a node in P seconds.
// [Stats] has what was measured of it.
//
// # Caveats
//
// A call that timed out may have been counted or not, and is never sent again.
// The units are lost to the key at worst, until they are regained.
//
// Redis Cluster keeps keys of one request in different slots: when one of them
// denies, what the others were charged is given back a moment later.
//
// Quotas are not shared: Prepare refuses them.
//
// Names of keys in Redis are hashes under Config.Secret; all nodes need the same.
//
// Needs Redis 5, Valkey 7.2 or later. Scripts use EVALSHA, EVAL, TIME, MGET,
// SET, DEL, PTTL, PEXPIRE and the sorted set commands; an ACL must allow them.
package redislimit
