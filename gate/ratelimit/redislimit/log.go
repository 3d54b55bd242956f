package redislimit

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"
)

// LogTo sends what the Redis client says of its connections to log, at level
// debug, in place of standard error. The client has one logger a process, so this
// holds for every user of go-redis in it. What matters to an operator is not in
// there: a store says it by its errors, its Stats and Config.Breaker.Trace.
func LogTo(log *slog.Logger) { redis.SetLogger(clientLog{log}) }

type clientLog struct{ *slog.Logger }

// Printf implements the client's logger.
func (l clientLog) Printf(ctx context.Context, format string, args ...any) {
	if l.Enabled(ctx, slog.LevelDebug) {
		l.DebugContext(ctx, "redis client", "said", fmt.Sprintf(format, args...))
	}
}
