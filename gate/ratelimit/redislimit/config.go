package redislimit

import (
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/comporta/comporta/breaker"
)

// Config describes a Store. Redis.Addrs is required; every other zero value is a
// default.
type Config struct {
	// Redis says where it is; see ParseURL. Addrs alone is one server, or with
	// IsClusterMode a cluster; with MasterName they are Sentinels. Retries and
	// the timeouts of a call are set by the store, whatever stands here.
	Redis redis.UniversalOptions
	// Prefix begins every key in Redis; empty means "comporta:rl". It may not
	// contain braces.
	Prefix string
	// Secret is hashed into the names of keys, the same on every node. Empty: who
	// can choose keys can compute their names.
	Secret []byte
	// Node is this process's name among the others; empty: a random one.
	Node string
	// Period is T of the bound, 100 ms to 1 min; 0 means 1 s. A lease lasts that
	// long, a node beats once in it, and after an outage half grants last that long.
	Period time.Duration
	// Timeout is the most that a decision may wait for Redis, 1 ms to 5 s; 0
	// means 20 ms.
	Timeout time.Duration
	// Nodes is how many nodes to assume until Redis has told; 0 means 1. While
	// Redis is away the last count stays.
	Nodes int
	// Keys is how many keys this node knows something about, 1,024 to 16,777,216;
	// 0 means 65,536 (8 MiB). What finds no room is asked of Redis.
	Keys int
	// Queue bounds the calls that wait for a round trip, 16 to 1,048,576; 0 means
	// 4,096 (in a cluster: for each of 32 parts of the key space). Others are
	// refused with ErrUnavailable.
	Queue int
	// Breaker says when Redis counts as down. Zero fields mean: a window of ten
	// Timeouts, at least 3 round trips, half of them failed, 250 ms open. A longer window
	// would remember what went well before, while everybody waits for the timeout.
	Breaker breaker.Config
	// Trace is told when Redis goes and comes.
	Trace Trace
}

// What the zero values of Config mean.
const (
	DefaultPrefix  = "comporta:rl"
	DefaultPeriod  = time.Second
	DefaultTimeout = 20 * time.Millisecond
	DefaultKeys    = 1 << 16
	DefaultQueue   = 1 << 12
)

// Bounds of what a configuration may ask for.
const (
	minPeriod, maxPeriod   = 100 * time.Millisecond, time.Minute
	minTimeout, maxTimeout = time.Millisecond, 5 * time.Second
	minKeys, maxKeys       = 1 << 10, 1 << 24
	minQueue, maxQueue     = 1 << 4, 1 << 20
	maxNodes               = 10_000
	maxPrefix              = 64
)

func orDefault[T comparable](v *T, otherwise T) {
	var zero T
	if *v == zero {
		*v = otherwise
	}
}

func (c Config) withDefaults() Config {
	orDefault(&c.Prefix, DefaultPrefix)
	orDefault(&c.Period, DefaultPeriod)
	orDefault(&c.Timeout, DefaultTimeout)
	orDefault(&c.Nodes, 1)
	orDefault(&c.Keys, DefaultKeys)
	orDefault(&c.Queue, DefaultQueue)
	orDefault(&c.Breaker.Window, max(200*time.Millisecond, 10*c.Timeout))
	orDefault(&c.Breaker.Minimum, 3)
	orDefault(&c.Breaker.Open, 250*time.Millisecond)
	orDefault(&c.Breaker.ProbeTimeout, 2*c.Timeout)
	return c
}

func (c Config) check() error {
	var problems []error
	bad := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("redislimit: "+format, args...))
	}
	if len(c.Redis.Addrs) == 0 {
		bad("Redis.Addrs is empty: name the server, as in 127.0.0.1:6379")
	}
	if len(c.Prefix) > maxPrefix || !plain(c.Prefix) {
		bad("Prefix: %q is no prefix: use up to %d printable characters without braces and spaces", c.Prefix, maxPrefix)
	}
	if len(c.Node) > maxPrefix || !plain(c.Node) {
		bad("Node: %q is no name: use up to %d printable characters without braces and spaces", c.Node, maxPrefix)
	}
	if c.Period < minPeriod || c.Period > maxPeriod {
		bad("Period: %v is not within %v and %v; 1s lets a lease last for a second", c.Period, minPeriod, maxPeriod)
	}
	if c.Timeout < minTimeout || c.Timeout > maxTimeout {
		bad("Timeout: %v is not within %v and %v; 20ms is the most that a decision then waits", c.Timeout, minTimeout, maxTimeout)
	}
	for _, r := range []struct {
		name           string
		n, least, most int
	}{
		{"Nodes", c.Nodes, 1, maxNodes}, {"Keys", c.Keys, minKeys, maxKeys}, {"Queue", c.Queue, minQueue, maxQueue},
	} {
		if r.n < r.least || r.n > r.most {
			bad("%s: %d is not within %d and %d; leave it out for the default", r.name, r.n, r.least, r.most)
		}
	}
	return errors.Join(problems...)
}

// plain reports whether s has nothing that would move a key to another slot, or
// that a terminal would not show.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || c == '{' || c == '}' {
			return false
		}
	}
	return true
}
