package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/comporta/comporta/store"
)

const (
	// maxBatch and maxBatchBytes bound what one commit writes.
	maxBatch      = 256
	maxBatchBytes = 8 << 20
	// maxQueue bounds the jobs that wait; further callers wait to queue.
	maxQueue = 1024
	// walPages is how long the log may grow before its pages are moved to the
	// database: 16 MiB.
	walPages = 4096
	// idle is the time without a job after which they are moved at the latest.
	idle = time.Second
)

// job is what one caller asks of the writer.
type job struct {
	// run does it, within the transaction of a batch. It may be run again after a
	// rollback: the last run counts. Its error is one of SQLite's, or
	// tells of a damaged record.
	run   func(*tables) error
	bytes int
	state atomic.Uint32
	done  chan error // gets one value when the commit is durable, or the error
}

// The states of a job.
const (
	queued uint32 = iota
	taken
	left // by its caller, before it was taken
)

// writer puts everything that waits into one transaction. It is the only one
// who writes.
type writer struct {
	place  *place
	conn   *sql.Conn
	tables tables
	jobs   chan *job
	// bytes is the size above which no new claims are taken.
	bytes int64

	ended  chan struct{}         // closed when run has returned
	broken atomic.Pointer[error] // why nothing is written any more
	failed atomic.Bool           // the last commit was in vain
	tally  tally
}

// tally counts what was written.
type tally struct{ commits, jobs, failed atomic.Uint64 }

// Stats is what the writer has done since the store was opened.
type Stats struct {
	Commits uint64 // each is one fsync
	Writes  uint64 // that they hold
	Failed  uint64 // commits that were tried in vain
}

// Stats returns the counts. It may be called at any time.
func (s *Store) Stats() Stats {
	t := &s.writer.tally
	return Stats{t.commits.Load(), t.jobs.Load(), t.failed.Load()}
}

func newWriter(p *place, conn *sql.Conn, bytes int64) *writer {
	return &writer{place: p, conn: conn, bytes: bytes, jobs: make(chan *job, maxQueue), ended: make(chan struct{})}
}

// do has the writer do a job and waits until it is on the disk. Once the job is
// taken its fate is not known to who leaves early.
func (w *writer) do(ctx context.Context, bytes int, run func(*tables) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("sqlitestore: %w", context.Cause(ctx))
	}
	if err := w.broken.Load(); err != nil {
		return *err
	}
	j := &job{run: run, bytes: bytes, done: make(chan error, 1)}
	select {
	case w.jobs <- j:
	case <-ctx.Done():
		return fmt.Errorf("sqlitestore: not asked: %w", context.Cause(ctx))
	}
	select {
	case err := <-j.done:
		return err
	case <-ctx.Done():
		if j.state.CompareAndSwap(queued, left) {
			return fmt.Errorf("sqlitestore: not done: %w", context.Cause(ctx))
		}
		return fmt.Errorf("sqlitestore: done or not: %w", context.Cause(ctx))
	}
}

// run writes until jobs is closed, and then what is left of it.
func (w *writer) run() {
	defer close(w.ended)
	timer := time.NewTimer(idle)
	defer timer.Stop()
	batch := make([]*job, 0, maxBatch)
	dirty := true // an earlier process may have left a log
	for {
		select {
		case j, ok := <-w.jobs:
			if !ok {
				return
			}
			batch = w.gather(append(batch[:0], j))
			w.write(batch)
			clear(batch)
			dirty = true
		case <-timer.C:
			if dirty && w.broken.Load() == nil {
				w.checkpoint()
			}
			dirty = false
		}
		if dirty {
			timer.Reset(idle)
		}
	}
}

// gather takes what waits already. Nobody is waited for: while one batch is
// written the next one queues.
func (w *writer) gather(batch []*job) []*job {
	bytes := batch[0].bytes
	for len(batch) < maxBatch && bytes < maxBatchBytes {
		select {
		case j, ok := <-w.jobs:
			if !ok {
				return batch
			}
			batch = append(batch, j)
			bytes += j.bytes
		default:
			return batch
		}
	}
	return batch
}

// write carries a batch out and tells everybody what became of it. When one job
// fails for a reason of its own, the rest is tried without it.
func (w *writer) write(batch []*job) {
	kept := batch[:0]
	for _, j := range batch {
		if j.state.CompareAndSwap(queued, taken) {
			kept = append(kept, j)
		}
	}
	for len(kept) > 0 {
		bad, err := w.commit(kept)
		w.failed.Store(err != nil && bad < 0)
		if err == nil {
			w.tally.commits.Add(1)
			w.tally.jobs.Add(uint64(len(kept)))
			tell(kept, nil)
			return
		}
		w.tally.failed.Add(1)
		err = w.explain(err)
		if bad < 0 {
			tell(kept, err)
			return
		}
		kept[bad].done <- err
		kept = append(kept[:bad], kept[bad+1:]...)
	}
}

func tell(jobs []*job, err error) {
	for _, j := range jobs {
		j.done <- err
	}
}

// commit runs the jobs in one transaction. After an error nothing of it is left;
// bad is the job that is alone to blame, or -1.
func (w *writer) commit(jobs []*job) (bad int, err error) {
	if w.broken.Load() != nil {
		return -1, *w.broken.Load()
	}
	// Once a commit, which takes an fsync: a caller is told of nothing that was
	// written into a file that had lost its name before.
	if err := w.place.kept(); err != nil {
		return -1, err
	}
	ctx := context.Background()
	if _, err = w.tables.begin.ExecContext(ctx); err != nil {
		return -1, err
	}
	w.tables.full, err = w.full(ctx)
	bad = -1
	for i := 0; err == nil && i < len(jobs); i++ {
		if err = jobs[i].run(&w.tables); err != nil && ofOne(err) {
			bad = i
		}
	}
	if err == nil {
		_, err = w.tables.commit.ExecContext(ctx)
	}
	if err != nil {
		// SQLite has rolled back by itself after some errors, and says so here.
		_, _ = w.conn.ExecContext(ctx, `ROLLBACK`)
	}
	return bad, err
}

// full reports whether the file has no room for new claims.
func (w *writer) full(ctx context.Context) (bool, error) {
	used, err := w.tables.used(ctx)
	return used >= w.bytes, err
}

// checkpoint moves the log into the database as far as readers let it. What
// fails here is tried again with the next commit, which reports it.
func (w *writer) checkpoint() {
	if _, err := w.conn.ExecContext(context.Background(), `PRAGMA wal_checkpoint(PASSIVE)`); err != nil {
		_ = w.explain(err) // see above
	}
}

// explain is that of the place, and ends the writing after what lasts.
func (w *writer) explain(err error) error {
	if err = explain(w.place.path, err); err != nil && lasting(err) {
		w.broken.CompareAndSwap(nil, &err)
	}
	return err
}

// stop waits until everything that was queued is written. No job may be queued
// any more.
func (w *writer) stop() {
	close(w.jobs)
	<-w.ended
}

var errFull = fmt.Errorf("sqlitestore: %w: the file has grown to MaxBytes (store.max_bytes of a gateway): raise it, or let records end sooner", store.ErrFull)
