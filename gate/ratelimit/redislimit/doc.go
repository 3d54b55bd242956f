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
// With N live nodes, a limit of C units refilled at r, and Period T, a key gets in
// the first W seconds of its use at most
//
//	C + r·W + min(N·L, r·T)
//
// where L, the most that one node may hold of one key, is r·T/2 but at least 1
// and at most C/2N. Where r·T is below N the last term is N: one unit a node. One
// node alone is exact. A window that begins later may see the last term twice:
// what nodes held when it began, and what Redis has not heard of when it ends.
//
// The bound grows by C each time Redis loses its memory, or by half of that
// within a Period of an outage that was noticed. While k of N nodes cannot reach
// Redis for P seconds, rules with ratelimit.FailLocal and a share of f/N admit
// f·k/N·(C + r·P) more. Keys used once by callers who are not believed, while
// more than a thousand of them appear in a Period, are not reported: inventing
// keys gains one unit a node and key. [Stats] has what was measured.
//
// # Caveats
//
// A call that timed out may have been counted or not, and is never sent again.
// The units are lost to the key at worst, until they are regained.
//
// Redis Cluster keeps keys of one request in different slots: when one of them
// denies, what the others were charged is given back a moment later.
//
// While Redis does not answer, leases that it gave before are still spent and
// denials still believed; everything else is ErrUnavailable, for the failure modes
// of the rules to decide.
//
// Quotas are not shared: Prepare refuses them.
//
// Names of keys in Redis are hashes under Config.Secret; all nodes need the same.
//
// Needs Redis 5, Valkey 7.2 or later. Scripts use EVALSHA, EVAL, TIME, MGET,
// SET, DEL, PTTL, PEXPIRE and the sorted set commands; an ACL must allow them.
package redislimit
