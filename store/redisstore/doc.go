// Package redisstore keeps idempotency keys in Redis, shared by many processes.
//
// # Basics
//
//	s, err := redisstore.Open(ctx, redisstore.Config{Redis: redis.UniversalOptions{Addrs: []string{"127.0.0.1:6379"}}})
//	if err != nil { ... }
//	defer s.Close()
//
// A record is a hash that Redis forgets by itself. Each call is one script, which
// is one step; a crowd shares connections. All instants are those of the Redis
// server's clock.
//
// Records lie in 256 buckets by the first byte of their name, each with an index
// for listings. A bucket is one slot of a cluster. Nothing but listings is read
// from an index.
//
// # What can be lost
//
// Redis answers before what it was told is safe. [Store.Health] reads from the
// server by how much, and the gateway says it when it starts:
//
//	appendonly yes, appendfsync always     nothing by a crash
//	appendonly yes, appendfsync everysec   the last second or two
//	appendonly yes, appendfsync no         what the system had not written yet
//	appendonly no                          everything since the last snapshot, or everything
//	any of these, with replicas            at a failover, what the replica had not received
//	any maxmemory-policy but noeviction    any record, when the memory is full
//
// What is lost is carried out again by the next repeat. Where that must not
// happen use PostgreSQL, or SQLite.
//
// # Caveats
//
// When Redis has lost its memory a Store that still runs puts its secret back
// within a second, so that it and those that start later mean the same by a name.
// One that meets another secret refuses every call.
//
// Listings come in the order of the names, which is none.
//
// When the server's clock is set back, leases and lives last that much longer.
//
// Needs Redis 5, Valkey 7.2 or later. Scripts use TIME, HGET, HMGET, HSET, DEL,
// PEXPIREAT, PTTL and the sorted set commands; Health uses INFO and CONFIG GET, and
// does without where they are refused.
package redisstore
