package redislimit

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by SHA-1
	"crypto/tls"
	_ "embed"
	"encoding/hex"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

//go:embed take.lua
var takeScript string

//go:embed beat.lua
var beatScript string

// script is a Lua script and the name under which Redis keeps it.
type script struct{ source, sha string }

func newScript(source string) script {
	sum := sha1.Sum([]byte(source)) //nolint:gosec // as above
	return script{source, hex.EncodeToString(sum[:])}
}

// tlsConfig verifies the name of the server when there is one server only; the
// client fills it in for those that it learns of.
func tlsConfig(o *redis.UniversalOptions) *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(o.Addrs) == 1 && o.MasterName == "" && !o.IsClusterMode {
		if host, _, err := net.SplitHostPort(o.Addrs[0]); err == nil {
			c.ServerName = host
		}
	}
	return c
}

// dial makes the client. Nothing is ever sent twice: what timed out may have been
// counted. See once for what the options do not reach.
func dial(c *Config) redis.UniversalClient {
	o := c.Redis
	o.MaxRetries = -1
	o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = c.Timeout, c.Timeout, c.Timeout
	o.ContextTimeoutEnabled = true
	orDefault(&o.DialTimeout, time.Second)
	orDefault(&o.DialerRetries, 1)
	// The client opens few connections: one for each flight. But after as many
	// failures to connect as the pool is large it tries only once a second, and a
	// Redis that is back would be found late. So large it takes an outage of an hour.
	orDefault(&o.PoolSize, 1<<14)
	orDefault(&o.MaxConcurrentDials, 8)
	orDefault(&o.Protocol, 2) // needs no HELLO, which Redis 5 does not know
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewUniversalClient(&o)
}

// once is a command that a cluster's client must not repeat after a broken
// connection, as it otherwise does even with retries off. It still follows
// redirections, which say that nothing was done.
type once struct{ *redis.Cmd }

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }

// run calls a script. When Redis does not know it, which it says without having
// done anything, it is sent along.
func run(ctx context.Context, client redis.UniversalClient, s *script, args []any) (any, error) {
	args[0], args[1] = "evalsha", s.sha
	cmd := once{redis.NewCmd(ctx, args...)}
	err := client.Process(ctx, cmd)
	if err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT") {
		args[0], args[1] = "eval", s.source
		cmd = once{redis.NewCmd(ctx, args...)}
		err = client.Process(ctx, cmd)
	}
	if err != nil {
		return nil, err
	}
	return cmd.Val(), nil
}
