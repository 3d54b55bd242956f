package sqlitestore

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	code "modernc.org/sqlite/lib"

	"github.com/comporta/comporta/store"
)

// A shell that holds the lock delays a claim and fails it with its reason; the
// claim is not lost halfway, and the next one goes on.
func TestLockedByAnotherProgram(t *testing.T) {
	s := open(t, Config{Busy: 50 * time.Millisecond})
	granted(t, s, "before")
	conn, leave := otherHands(t, s.place.path)
	defer leave()
	if _, err := conn.ExecContext(t.Context(), `BEGIN IMMEDIATE`); err != nil {
		t.Fatal(err)
	}
	c := claimOf("k")
	if _, err := s.Claim(t.Context(), time.Now(), c); err == nil || !strings.Contains(err.Error(), "another program") {
		t.Errorf("%v", err)
	}
	if _, err := s.Health(t.Context()); err == nil || !strings.Contains(err.Error(), "another program") {
		t.Errorf("health: %v", err)
	}
	if _, err := s.Look(t.Context(), time.Now(), nameOf("before")); err != nil {
		t.Errorf("readers wait for no writer: %v", err)
	}
	if _, err := conn.ExecContext(t.Context(), `ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Health(t.Context()); err != nil {
		t.Errorf("health after the lock: %v", err)
	}
	if got, err := s.Claim(t.Context(), time.Now(), c); err != nil || !got.Granted {
		t.Errorf("%+v, %v", got, err)
	}
}

// cases/events.md D38: readers and a listing during a flood of writes meet no
// SQLITE_BUSY.
func TestCase_Events_D38_NobodyIsBusy(t *testing.T) {
	s := open(t, Config{Busy: time.Millisecond})
	var writers, readers sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	for g := range 8 {
		writers.Go(func() {
			for i := range 100 {
				finish(t, s, granted(t, s, keyOf(g*1000+i)), "made")
			}
		})
		readers.Go(func() {
			for ctx.Err() == nil {
				if _, err := s.List(context.Background(), time.Now(), store.Query{}); err != nil {
					t.Error(err)
				}
				if _, err := s.Health(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	stop()
	readers.Wait()
}

// A file that has grown to its bound takes no new claims; those that run can
// still be finished, and what is swept makes room.
func TestFull(t *testing.T) {
	s := open(t, Config{MaxBytes: minBytes})
	now := time.Now()
	short := func(key string) store.Claim {
		c := claimOf(key)
		c.Lease, c.TTL = time.Minute, time.Minute
		return c
	}
	runs := granted(t, s, "runs")
	body := strings.Repeat("x", 8<<10)
	var err error
	for i := 0; err == nil; i++ {
		c := short(keyOf(i))
		if _, err = s.Claim(t.Context(), now, c); err == nil {
			f := answerOf(body)
			f.TTL = time.Minute
			if err := s.Finish(t.Context(), now, store.Hold{Name: c.Name, Fence: c.Fence}, f); err != nil {
				t.Fatal(err)
			}
		}
		if i > 1000 {
			t.Fatal("never full")
		}
	}
	if !errors.Is(err, store.ErrFull) {
		t.Fatal(err)
	}
	if _, err := s.Health(t.Context()); !errors.Is(err, store.ErrFull) {
		t.Errorf("health: %v", err)
	}
	if err := s.Renew(t.Context(), now, runs, time.Hour); err != nil {
		t.Errorf("renew: %v", err)
	}
	finish(t, s, runs, body)
	later := now.Add(time.Minute)
	for {
		n, err := s.Sweep(t.Context(), later, 100)
		if err != nil {
			t.Fatal(err)
		}
		if n < 100 {
			break
		}
	}
	if got, err := s.Claim(t.Context(), later, claimOf("after")); err != nil || !got.Granted {
		t.Errorf("after the sweep: %+v, %v", got, err)
	}
	if bodyOf(t, s, "runs") != body {
		t.Error("the answer is another")
	}
}

// cases/events.md B22: who sets the wall clock ends no lease early and keeps none
// alive.
func TestCase_Events_B22_WallClockSteps(t *testing.T) {
	for _, step := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
		t.Run(step.String(), func(t *testing.T) {
			s, now := open(t, Config{}), time.Now()
			first, second := claimOf("k"), claimOf("k")
			first.Lease, second.Over = time.Minute, first.Fence
			if got, err := s.Claim(t.Context(), now, first); err != nil || !got.Granted {
				t.Fatalf("%+v, %v", got, err)
			}
			got, err := s.Claim(t.Context(), stepped(t, now.Add(59*time.Second), step), second)
			if err != nil || got.Granted || got.Record.State != store.Running || got.Record.LeaseLeft != time.Second {
				t.Errorf("before the lease ends: %+v, %v", got, err)
			}
			if got, err := s.Claim(t.Context(), stepped(t, now.Add(time.Minute), step), second); err != nil || !got.Granted {
				t.Errorf("when it has ended: %+v, %v", got, err)
			}
		})
	}
}

// stepped is the reading of a clock that would have been now, had nobody set the wall
// clock meanwhile. The monotonic one stays as it is.
func stepped(t *testing.T, now time.Time, by time.Duration) time.Time {
	t.Helper()
	wall := (*uint64)(unsafe.Pointer(&now)) // nothing else makes such a reading
	before := now
	*wall += uint64(by/time.Second) << 30 // above the nanoseconds
	if now.Sub(before) != 0 || now.Round(0).Sub(before.Round(0)) != by {
		t.Fatal("time.Time is laid out in another way")
	}
	return now
}

// A damaged page is found by Check and by whoever reads it.
func TestCorrupt(t *testing.T) {
	path := file(t)
	s := open(t, Config{Path: path})
	const records = 200
	for i := range records {
		finish(t, s, granted(t, s, keyOf(i)), strings.Repeat("x", 2000))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const page = 4096
	for i := 8; i < len(b)/page; i += 5 { // the first pages hold the schema
		copy(b[i*page:], strings.Repeat("\xff", 64))
	}
	write(t, path, string(b), 0o600)
	s = open(t, Config{Path: path})
	if err := Check(t.Context(), path); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "backup") {
		t.Errorf("check: %v", err)
	}
	bad := 0
	for i := range records {
		r, err := s.Look(t.Context(), time.Now(), nameOf(keyOf(i)))
		switch {
		case errors.Is(err, ErrCorrupt):
			bad++
		case errors.Is(err, store.ErrNotFound):
			t.Errorf("%s is said to be free", keyOf(i))
		case err != nil:
			t.Errorf("%v", err)
		case len(r.Answer.Body) != 2000:
			t.Errorf("an answer of %d bytes", len(r.Answer.Body))
		}
	}
	if bad == 0 {
		t.Error("nobody met the damage")
	}
	for i := range records { // what cannot be read is not claimed
		got, err := s.Claim(t.Context(), time.Now(), claimOf(keyOf(i)))
		if err == nil && got.Granted {
			t.Fatalf("%s is granted a second time", keyOf(i))
		}
	}
}

// fault is an error as SQLite reports it.
type fault int

func (fault) Error() string { return "injected" }
func (f fault) Code() int   { return int(f) }

// After a failed fsync nothing is written any more, whatever a second one says.
func TestBroken(t *testing.T) {
	s := open(t, Config{})
	h := granted(t, s, "k")
	err := s.writer.do(t.Context(), 0, func(*tables) error { return fault(code.SQLITE_IOERR_FSYNC) })
	if !errors.Is(err, ErrBroken) {
		t.Fatal(err)
	}
	if err := s.Finish(t.Context(), time.Now(), h, answerOf("x")); !errors.Is(err, ErrBroken) {
		t.Errorf("finish: %v", err)
	}
	if _, err := s.Health(t.Context()); !errors.Is(err, ErrBroken) {
		t.Errorf("health: %v", err)
	}
}

// One job that fails for a reason of its own does not fail its neighbours, and
// what it did before it failed is undone.
func TestOneBadJobOfABatch(t *testing.T) {
	s := open(t, Config{})
	var batch []*job
	add := func(run func(*tables) error) {
		batch = append(batch, &job{run: run, done: make(chan error, 1)})
	}
	good := []*claiming{newClaiming(claimOf("a"), s.at(time.Now())), newClaiming(claimOf("b"), s.at(time.Now()))}
	half := newClaiming(claimOf("half"), s.at(time.Now()))
	add(good[0].run)
	add(func(t *tables) error {
		if err := half.run(t); err != nil {
			return err
		}
		return fault(code.SQLITE_CONSTRAINT)
	})
	add(good[1].run)
	abandoned := newClaiming(claimOf("abandoned"), s.at(time.Now()))
	add(abandoned.run)
	batch[3].state.Store(left)
	want := []bool{true, false, true}
	done := make([]chan error, len(batch))
	for i, j := range batch {
		done[i] = j.done
	}
	s.writer.stop() // this goroutine is the writer
	s.writer.write(batch)
	for i, ok := range want {
		if err := <-done[i]; (err == nil) != ok {
			t.Errorf("job %d: %v", i, err)
		}
	}
	for key, there := range map[string]bool{"a": true, "half": false, "b": true, "abandoned": false} {
		if _, err := s.Look(t.Context(), time.Now(), nameOf(key)); (err == nil) != there {
			t.Errorf("%s: %v", key, err)
		}
	}
	s.writer.jobs, s.writer.ended = make(chan *job), make(chan struct{})
	go s.writer.run() // for Close
}

// Who leaves early changes nothing that others see by halves: the job is done or
// not, and can be asked again.
func TestCallersLeave(t *testing.T) {
	s := open(t, Config{})
	var wg sync.WaitGroup
	for g := range 32 {
		wg.Go(func() {
			for i := range 50 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*50*time.Microsecond)
				c := claimOf(keyOf(g*1000 + i))
				_, err := s.Claim(ctx, time.Now(), c)
				cancel()
				if err != nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
				if got, err := s.Claim(context.Background(), time.Now(), c); err != nil || !got.Granted {
					t.Errorf("asked again: %+v, %v", got, err)
				}
			}
		})
	}
	wg.Wait()
}

func TestCloseWaitsForCallers(t *testing.T) {
	s := open(t, Config{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	kept := map[string]bool{}
	for g := range 16 {
		wg.Go(func() {
			for i := 0; ; i++ {
				key := keyOf(g*10000 + i)
				got, err := s.Claim(context.Background(), time.Now(), claimOf(key))
				if errors.Is(err, store.ErrClosed) {
					return
				}
				if err != nil || !got.Granted {
					t.Errorf("%+v, %v", got, err)
					return
				}
				mu.Lock()
				kept[key] = true
				enough := len(kept) == 300
				mu.Unlock()
				if enough {
					wg.Go(func() {
						if err := s.Close(); err != nil {
							t.Error(err)
						}
					})
				}
			}
		})
	}
	wg.Wait()
	s = open(t, Config{Path: s.place.path})
	for key := range kept {
		if _, err := s.Look(t.Context(), time.Now(), nameOf(key)); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
}
