//go:build integration

package redislimit

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/comporta/comporta/gate/ratelimit"
)

// A user who may do no more than the guide says can share limits: charge, deny,
// give back, and beat.
func TestLeastPrivilege(t *testing.T) {
	commands := []any{
		"+evalsha", "+eval", "+time", "+mget", "+set", "+del", "+pttl", "+pexpire",
		"+zadd", "+zrem", "+zscore", "+zcard", "+zremrangebyscore", "+zremrangebyrank",
	}
	for name, more := range map[string][]any{"URL": nil, "CLUSTER": {"+command", "+cluster|slots", "+cluster|shards"}} {
		t.Run(name, func(t *testing.T) {
			o := where(t, "COMPORTA_TEST_REDIS_"+name)
			client := redis.NewUniversalClient(&o)
			t.Cleanup(func() { _ = client.Close() }) // the test is over
			each := func(args ...any) {
				t.Helper()
				err := forEachServer(t.Context(), client, func(ctx context.Context, c *redis.Client) error { return c.Do(ctx, args...).Err() })
				if err != nil {
					t.Fatal(err)
				}
			}
			base := prefix()
			user := append([]any{"acl", "setuser", "limits", "on", ">secret", "resetkeys", "~" + base + ":*", "-@all"}, commands...)
			each(append(user, more...)...)
			t.Cleanup(func() {
				_ = forEachServer(context.Background(), client, func(ctx context.Context, c *redis.Client) error {
					return c.Do(ctx, "acl", "deluser", "limits").Err()
				})
			})
			o.Username, o.Password = "limits", "secret"
			s := open(t, Config{Redis: o, Prefix: base})
			if st := s.StatsAt(s.clock()); st.Missed > 0 {
				t.Error("the first heartbeat failed")
			}
			p := policyOf(t, []*Store{s}, ratelimit.Policy{Name: "p", Limit: perSecond(1, 10)})
			if ok, _, err := s.take(p, "k", 8); !ok || err != nil {
				t.Fatal(ok, err)
			}
			if ok, _, err := s.take(p, "k", 8); ok || err != nil {
				t.Fatal(ok, err)
			}
			debits := []ratelimit.Debit{{Policy: p, Key: []byte("k"), Cost: 8}}
			if err := s.Refund(t.Context(), s.clock(), "id", debits); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func forEachServer(ctx context.Context, client redis.UniversalClient, f func(context.Context, *redis.Client) error) error {
	switch c := client.(type) {
	case *redis.ClusterClient:
		return c.ForEachShard(ctx, f)
	case *redis.Client:
		return f(ctx, c)
	}
	return nil
}
