package redisstore

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/comporta/comporta/store"
)

var (
	//go:embed claim.lua
	claimSource string
	//go:embed renew.lua
	renewSource string
	//go:embed finish.lua
	finishSource string
	//go:embed release.lua
	releaseSource string
	//go:embed look.lua
	lookSource string
	//go:embed brief.lua
	briefSource string

	claimScript   = redis.NewScript(claimSource)
	renewScript   = redis.NewScript(renewSource)
	finishScript  = redis.NewScript(finishSource)
	releaseScript = redis.NewScript(releaseSource)
	lookScript    = redis.NewScript(lookSource)
	briefScript   = redis.NewScript(briefSource)
)

// vigil is how often a Store that is used looks whether its secret is still there.
const vigil = time.Second

// Store is a store.Keys in Redis. Methods may be called from many goroutines.
type Store struct {
	client  redis.UniversalClient
	prefix  string
	timeout time.Duration
	secret  []byte
	opened  time.Time    // instants of our own clock are measured from here
	looked  atomic.Int64 // when the secret was last seen to be there, in nanoseconds since opened
	strange atomic.Bool  // another secret was there

	// life is held for reading by every call, so that Close waits for them.
	life   sync.RWMutex
	closed bool
}

var _ store.Keys = (*Store)(nil)

// Open connects, and draws the secret if there is none.
func Open(ctx context.Context, c Config) (*Store, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	s := &Store{client: dial(&c), prefix: c.Prefix, timeout: c.Timeout, opened: time.Now()}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	secret, err := s.keep(ctx, store.NewSecret())
	if err == nil && len(secret) != store.SecretSize {
		err = fmt.Errorf("redisstore: %s holds no secret of ours: use another prefix", s.secretKey())
	}
	if err != nil {
		return nil, errors.Join(explain(err), s.client.Close())
	}
	s.secret = secret
	return s, nil
}

func (s *Store) secretKey() string { return s.prefix + ":secret" }

// keep writes the secret if there is none, and returns the one that is there. It
// reads first: a full Redis refuses to write.
func (s *Store) keep(ctx context.Context, secret []byte) ([]byte, error) {
	found, err := s.client.Get(ctx, s.secretKey()).Bytes()
	if !errors.Is(err, redis.Nil) {
		return found, err
	}
	if err := s.client.SetNX(ctx, s.secretKey(), secret, 0).Err(); err != nil {
		return nil, err
	}
	return s.client.Get(ctx, s.secretKey()).Bytes()
}

// watch sees to it that the secret is there: a Redis that has lost its memory would
// give another one to whoever starts next, and the two would not know each other's
// keys.
func (s *Store) watch(ctx context.Context) error {
	if s.strange.Load() {
		return errStrange
	}
	now, last := int64(time.Since(s.opened)), s.looked.Load()
	if now-last < int64(vigil) || !s.looked.CompareAndSwap(last, now) {
		return nil
	}
	found, err := s.keep(ctx, s.secret)
	switch {
	case err != nil:
		s.looked.CompareAndSwap(now, last) // the next call looks again
	case !bytes.Equal(found, s.secret):
		s.strange.Store(true)
		return errStrange
	}
	return err
}

// errStrange stays until the process starts again: what it has named, it has named
// by the secret that is gone.
var errStrange = fmt.Errorf("%w: Redis lost its memory and another process has drawn a new secret: start this one again", ErrUnavailable)

// enter begins a call, which has the timeout; leave ends it.
func (s *Store) enter(ctx context.Context) (within context.Context, leave func(), err error) {
	if ctx.Err() != nil {
		return nil, nil, fmt.Errorf("redisstore: %w", context.Cause(ctx))
	}
	s.life.RLock()
	if s.closed {
		s.life.RUnlock()
		return nil, nil, fmt.Errorf("redisstore: %w", store.ErrClosed)
	}
	within, cancel := context.WithTimeout(ctx, s.timeout)
	leave = func() { cancel(); s.life.RUnlock() }
	if err := s.watch(within); err != nil {
		leave()
		return nil, nil, explain(err)
	}
	return within, leave, nil
}

// run calls a script, and once more if its connection broke: each script says the
// same when it is called again, but for a release, of which it says that there is
// nothing.
func (s *Store) run(ctx context.Context, script *redis.Script, keys []string, args ...any) (any, error) {
	reply, err := script.Run(ctx, s.client, keys, args...).Result()
	if dropped(err) && ctx.Err() == nil {
		reply, err = script.Run(ctx, s.client, keys, args...).Result()
	}
	return reply, explain(err)
}

// Secret implements store.Keys.
func (s *Store) Secret(ctx context.Context) ([]byte, error) {
	_, leave, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	return slices.Clone(s.secret), nil
}

// Sweep implements store.Keys. Redis forgets by itself.
func (s *Store) Sweep(ctx context.Context, _ time.Time, _ int) (int, error) {
	_, leave, err := s.enter(ctx)
	if err != nil {
		return 0, err
	}
	defer leave()
	return 0, nil
}

// Close implements store.Keys.
func (s *Store) Close() error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	return s.client.Close()
}
