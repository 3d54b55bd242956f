package pgstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/comporta/comporta/store"
)

// Who is not a superuser sees the rows of pg_stat_replication, and little in them.
const healthSQL = `SELECT pg_total_relation_size('{schema}.idempotency'::regclass), pg_is_in_recovery(),
		current_setting('fsync'), current_setting('synchronous_commit'), current_setting('synchronous_standby_names') <> '',
		(SELECT count(*) FROM pg_stat_replication)`

// Health implements store.Keys.
func (s *Store) Health(ctx context.Context) (store.Health, error) {
	h := store.Health{Engine: "postgres", Records: -1, Bytes: -1}
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return h, err
	}
	defer leave()
	var replica bool
	var d durability
	err = s.retry(ctx, again, func() error {
		return s.pool.QueryRow(ctx, s.statements.health).Scan(&h.Bytes, &replica, &d.fsync, &d.commit, &d.synchronous, &d.replicas)
	})
	if err != nil {
		return h, explain(err)
	}
	h.Loss = d.loss()
	if replica {
		return h, fmt.Errorf("%w: %s", ErrUnavailable, remedies["25006"])
	}
	return h, nil
}

// durability is what the server says of its own.
type durability struct {
	fsync, commit string
	synchronous   bool // it waits for replicas
	replicas      int
}

// loss says what a crash can lose, or nothing.
func (d durability) loss() string {
	var all []string
	if d.fsync == "off" {
		all = append(all, "PostgreSQL runs with fsync off: a crash of its machine can lose or damage everything")
	}
	if d.commit == "off" {
		all = append(all, "PostgreSQL runs with synchronous_commit off: a crash can lose what was recorded in the last second")
	}
	if d.replicas > 0 && (!d.synchronous || d.commit == "local" || d.commit == "off") {
		all = append(all, "a failover can lose what its replica has not received: PostgreSQL does not wait for one (synchronous_standby_names, synchronous_commit)")
	}
	return strings.Join(all, "; ")
}
