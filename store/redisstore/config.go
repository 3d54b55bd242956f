package redisstore

import (
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Config says where the state lies. Redis.Addrs is required; every other zero
// value is a default.
type Config struct {
	// Redis says where it is: Addrs alone is one server, with IsClusterMode a
	// cluster, with MasterName they are Sentinels. redislimit.ParseURL reads an
	// address into it. Retries and the timeouts of a call are set by the store,
	// whatever stands here.
	Redis redis.UniversalOptions
	// Prefix begins every key in Redis; empty means "comporta:keys". It may not
	// contain braces.
	Prefix string
	// Timeout bounds each call, 1 ms to 1 min; 0 means 1 s.
	Timeout time.Duration
}

// What the zero values of Config mean.
const (
	DefaultPrefix  = "comporta:keys"
	DefaultTimeout = time.Second
)

// Bounds of what a configuration may ask for.
const (
	minTimeout, maxTimeout = time.Millisecond, time.Minute
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
	orDefault(&c.Timeout, DefaultTimeout)
	return c
}

// Check says everything that is wrong with a configuration, without a connection.
func (c Config) Check() error {
	c = c.withDefaults()
	var problems []error
	bad := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("redisstore: "+format, args...))
	}
	if len(c.Redis.Addrs) == 0 {
		bad("Redis.Addrs is empty: name the server, as in 127.0.0.1:6379")
	}
	if len(c.Prefix) > maxPrefix || !plain(c.Prefix) {
		bad("Prefix: %q is no prefix: use up to %d printable characters without braces and spaces", c.Prefix, maxPrefix)
	}
	if c.Timeout < minTimeout || c.Timeout > maxTimeout {
		bad("Timeout: %v is not within %v and %v; leave it out for %v", c.Timeout, minTimeout, maxTimeout, DefaultTimeout)
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

// dial makes the client. It repeats nothing by itself: the store knows what may be
// repeated.
func dial(c *Config) redis.UniversalClient {
	o := c.Redis
	o.MaxRetries = -1
	o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = c.Timeout, c.Timeout, c.Timeout
	o.ContextTimeoutEnabled = true
	orDefault(&o.DialTimeout, min(time.Second, c.Timeout))
	orDefault(&o.DialerRetries, 1)
	orDefault(&o.PoolSize, 64)
	orDefault(&o.Protocol, 2) // needs no HELLO, which Redis 5 does not know
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewUniversalClient(&o)
}
