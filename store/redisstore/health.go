package redisstore

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/comporta/comporta/store"
)

// Health implements store.Keys.
func (s *Store) Health(ctx context.Context) (store.Health, error) {
	h := store.Health{Engine: "redis", Records: -1, Bytes: -1}
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return h, err
	}
	defer leave()
	pipe := s.client.Pipeline()
	counts := make([]*redis.IntCmd, buckets)
	for i := range counts {
		counts[i] = pipe.ZCard(ctx, s.index(i))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return h, explain(err)
	}
	h.Records = 0
	for _, c := range counts {
		h.Records += c.Val()
	}
	h.Loss, err = s.loss(ctx)
	return h, explain(err)
}

// loss says what the servers can lose, by their own word.
func (s *Store) loss(ctx context.Context) (string, error) {
	var mu sync.Mutex
	seen := map[string]bool{}
	var all []string
	ask := func(ctx context.Context, server redis.Cmdable) error {
		d, err := durabilityOf(ctx, server)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for _, sentence := range d.losses() {
			if !seen[sentence] {
				seen[sentence] = true
				all = append(all, sentence)
			}
		}
		return nil
	}
	var err error
	if cluster, ok := s.client.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, server *redis.Client) error { return ask(ctx, server) })
	} else {
		err = ask(ctx, s.client)
	}
	return strings.Join(all, "; "), err
}

// durability is what a server says of its own; empty strings are unknown.
type durability struct {
	appendonly, fsync, snapshots, memory, policy string
	replicas                                     string
	refused                                      bool // it does not tell
}

func durabilityOf(ctx context.Context, server redis.Cmdable) (d durability, err error) {
	info, err := server.Info(ctx, "replication").Result()
	if err != nil && !refused(err) {
		return d, err
	}
	for line := range strings.Lines(info) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "connected_slaves:"); ok {
			d.replicas = n
		}
	}
	for setting, into := range map[string]*string{
		"appendonly": &d.appendonly, "appendfsync": &d.fsync, "save": &d.snapshots,
		"maxmemory": &d.memory, "maxmemory-policy": &d.policy,
	} {
		values, err := server.ConfigGet(ctx, setting).Result()
		if refused(err) {
			d.refused = true
			return d, nil
		}
		if err != nil {
			return d, err
		}
		*into = values[setting]
	}
	return d, nil
}

// refused reports whether a server does not let us ask, as hosted ones do.
func refused(err error) bool {
	said, ok := errors.AsType[redis.Error](err)
	return ok && (strings.HasPrefix(said.Error(), "NOPERM") || strings.HasPrefix(said.Error(), "ERR unknown"))
}

// losses says what can be lost, one sentence each.
func (d durability) losses() (all []string) {
	say := func(sentence string) { all = append(all, sentence) }
	switch {
	case d.refused:
		say("Redis does not tell whether it keeps what it is told (CONFIG GET is refused): see appendonly, appendfsync and maxmemory-policy")
	case d.appendonly != "yes" && d.snapshots == "":
		say("Redis keeps nothing on disk (appendonly no, no snapshots): when it ends everything is lost")
	case d.appendonly != "yes":
		say("Redis writes snapshots only (appendonly no): a crash loses everything since the last one")
	case d.fsync == "no":
		say("Redis leaves writing to the system (appendfsync no): a cut of power loses what was not written yet, half a minute perhaps")
	case d.fsync != "always":
		say("Redis writes to disk once a second (appendfsync everysec): a crash loses what was recorded in the last second or two")
	}
	if d.replicas != "" && d.replicas != "0" {
		say("Redis answers before its replicas know: a failover loses what they have not received")
	}
	if d.memory != "" && d.memory != "0" && d.policy != "noeviction" {
		say("Redis drops records when its memory is full (maxmemory-policy " + d.policy + "): use noeviction")
	}
	return all
}
