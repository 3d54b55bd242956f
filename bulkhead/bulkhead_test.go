package bulkhead

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func newBulkhead(t testing.TB, c Config) *Bulkhead {
	t.Helper()
	b, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// take acquires a permit that must be free.
func take(t testing.TB, b *Bulkhead) Permit {
	t.Helper()
	p, ok := b.TryAcquire()
	if !ok {
		t.Fatalf("no permit: %+v", b.Stats())
	}
	return p
}

func wantStats(t *testing.T, b *Bulkhead, inFlight, waiting int) {
	t.Helper()
	if s := b.Stats(); s.InFlight != inFlight || s.Waiting != waiting {
		t.Errorf("%d in flight and %d waiting, want %d and %d", s.InFlight, s.Waiting, inFlight, waiting)
	}
}

// cases/overload.md 1: waiters that give up lose no permit.
func TestCase_Overload_A1_AbandonedWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(t, Config{Limit: 8, Queue: 8, MaxWait: 20 * time.Millisecond})
		for range 1000 {
			var held [8]Permit
			for i := range held {
				held[i] = take(t, b)
			}
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					p, err := b.Acquire(t.Context())
					if !errors.Is(err, ErrFull) || p.Held() {
						t.Errorf("got %v, %v", p.Held(), err)
					}
				})
			}
			synctest.Wait()
			wantStats(t, b, 8, 8)
			wg.Wait()
			wantStats(t, b, 8, 0)
			for _, p := range held {
				p.Release()
			}
		}
		for range 8 {
			take(t, b).Release()
		}
		wantStats(t, b, 0, 0)
	})
}

// cases/overload.md 2: whichever way a caller goes, there is one release.
func TestCase_Overload_A2_OneReleaseEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(t, Config{Limit: 1, Queue: 4})

		t.Log("gone before it asks")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := b.Acquire(ctx); !errors.Is(err, context.Canceled) || !errors.Is(err, ErrFull) {
			t.Errorf("got %v", err)
		}
		wantStats(t, b, 0, 0)

		t.Log("gone while queued")
		holder := take(t, b)
		left := errors.New("the caller left")
		ctx, leave := context.WithCancelCause(t.Context())
		failed := make(chan error)
		go func() { _, err := b.Acquire(ctx); failed <- err }()
		synctest.Wait()
		wantStats(t, b, 1, 1)
		time.Sleep(time.Second)
		leave(left)
		err := <-failed
		full, ok := errors.AsType[*FullError](err)
		if !errors.Is(err, left) || !ok || full.Waited != time.Second {
			t.Errorf("got %#v, want the cause and the wait", err)
		}
		wantStats(t, b, 1, 0)

		t.Log("released twice, by two copies")
		again := holder
		if !holder.Release() || again.Release() || holder.Held() {
			t.Error("a permit was released twice, or not at all")
		}
		wantStats(t, b, 0, 0)

		t.Log("an old copy does not release its successor")
		next := take(t, b)
		holder.Release()
		if !next.Held() {
			t.Error("an old copy released a later permit")
		}
		next.Release()
	})
}

// A hand-over and a goodbye in the same moment: the permit goes on to the next.
func TestHandOverToOneWhoLeaves(t *testing.T) {
	for range 300 {
		synctest.Test(t, func(t *testing.T) {
			b := newBulkhead(t, Config{Limit: 1, Queue: 2})
			holder := take(t, b)
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			wg.Go(func() {
				if p, err := b.Acquire(ctx); err == nil {
					p.Release()
				}
			})
			synctest.Wait()
			wg.Go(func() {
				p, err := b.Acquire(t.Context())
				if err != nil {
					t.Errorf("the permit was lost: %v", err)
				}
				p.Release()
			})
			synctest.Wait()
			wg.Go(cancel)
			wg.Go(func() { holder.Release() })
			wg.Wait()
			wantStats(t, b, 0, 0)
		})
	}
}

// cases/overload.md 5: zero means zero, also for those who would wait.
func TestCase_Overload_A5_ZeroMeansZero(t *testing.T) {
	for name, b := range map[string]*Bulkhead{
		"zero value": {},
		"limit 0":    newBulkhead(t, Config{Queue: 10}),
	} {
		if _, ok := b.TryAcquire(); ok {
			t.Errorf("%s: let one through", name)
		}
		if _, err := b.Acquire(t.Context()); !errors.Is(err, ErrFull) {
			t.Errorf("%s: %v", name, err)
		}
		if s := b.Stats(); s != (Stats{}) {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// cases/client.md D10: a dependency that hangs holds the limit and no more.
func TestCase_Client_D10_HangingDependency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(t, Config{Limit: 6, Queue: 4, MaxWait: time.Second})
		hang := make(chan struct{})
		var reached, refused atomic.Int64
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				p, err := b.Acquire(t.Context())
				if err != nil {
					refused.Add(1)
					return
				}
				defer p.Release()
				reached.Add(1)
				<-hang
			})
		}
		synctest.Wait()
		if reached.Load() != 6 || refused.Load() != 40 {
			t.Errorf("%d reached it and %d were refused at once, want 6 and 40", reached.Load(), refused.Load())
		}
		wantStats(t, b, 6, 4)
		time.Sleep(time.Second)
		synctest.Wait()
		if reached.Load() != 6 || refused.Load() != 44 {
			t.Errorf("after the wait: %d and %d, want 6 and 44", reached.Load(), refused.Load())
		}
		close(hang)
		wg.Wait()
		wantStats(t, b, 0, 0)
	})
}

// cases/client.md D11: a refusal can be told from what the destination says.
func TestCase_Client_D11_RefusalIsLocal(t *testing.T) {
	b := newBulkhead(t, Config{Limit: 1})
	take(t, b)
	_, err := b.Acquire(t.Context())
	if !errors.Is(err, ErrFull) || err.Error() != "bulkhead: full" {
		t.Errorf("got %v", err)
	}
}

func TestFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(t, Config{Limit: 1, Queue: 5})
		holder := take(t, b)
		var order []int
		var wg sync.WaitGroup
		for i := range 5 {
			ctx := t.Context()
			if i == 2 { // leaves from the middle
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, time.Second)
				t.Cleanup(cancel)
			}
			wg.Go(func() {
				p, err := b.Acquire(ctx)
				if err != nil {
					return
				}
				order = append(order, i) // the permit is the lock
				p.Release()
			})
			synctest.Wait()
		}
		if _, ok := b.TryAcquire(); ok {
			t.Error("a newcomer passed the queue by")
		}
		if _, err := b.Acquire(t.Context()); !errors.Is(err, ErrFull) {
			t.Errorf("a sixth waiter: %v", err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		wantStats(t, b, 1, 4)
		holder.Release()
		wg.Wait()
		if got, want := order, []int{0, 1, 3, 4}; len(got) != 4 || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] || got[3] != want[3] {
			t.Errorf("served in the order %v, want %v", got, want)
		}
	})
}

// The wait ends with the context or with MaxWait, whichever is first.
func TestWaitIsBounded(t *testing.T) {
	for _, tt := range []struct {
		name             string
		maxWait, timeout time.Duration
		want             time.Duration
		deadline         bool
	}{
		{"by MaxWait", time.Second, 5 * time.Second, time.Second, false},
		{"by the context", 5 * time.Second, time.Second, time.Second, true},
		{"by the context alone", 0, 3 * time.Second, 3 * time.Second, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBulkhead(t, Config{Limit: 1, Queue: 1, MaxWait: tt.maxWait})
				take(t, b)
				ctx, cancel := context.WithTimeout(t.Context(), tt.timeout)
				defer cancel()
				start := time.Now()
				_, err := b.Acquire(ctx)
				if got := time.Since(start); got != tt.want {
					t.Errorf("waited %v, want %v", got, tt.want)
				}
				if !errors.Is(err, ErrFull) || errors.Is(err, context.DeadlineExceeded) != tt.deadline {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

func TestTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var waits []time.Duration
		admitted, refused := 0, 0
		b := newBulkhead(t, Config{Limit: 1, Queue: 1, MaxWait: 3 * time.Second, Trace: Trace{
			Waited: func(d time.Duration, ok bool) {
				waits = append(waits, d)
				if ok {
					admitted++
				}
			},
			Refused: func(*FullError) { refused++ },
		}})
		holder := take(t, b)
		time.AfterFunc(time.Second, func() { holder.Release() })
		p, err := b.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err = b.Acquire(t.Context()); err == nil || err.Error() != "bulkhead: full for 3s" {
			t.Errorf("got %v", err)
		}
		p.Release()
		if len(waits) != 2 || waits[0] != time.Second || waits[1] != 3*time.Second || admitted != 1 || refused != 1 {
			t.Errorf("waits %v, %d admitted, %d refused", waits, admitted, refused)
		}
	})
}

func TestErrorTexts(t *testing.T) {
	e := &FullError{Waited: 1234567 * time.Microsecond, Cause: context.DeadlineExceeded}
	if got, want := e.Error(), "bulkhead: gave up after 1.235s: context deadline exceeded"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestNewNamesEveryProblem(t *testing.T) {
	_, err := New(Config{Limit: -1, Queue: maxQueue + 1, MaxWait: -1})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, field := range []string{"Limit", "Queue", "MaxWait"} {
		if !strings.Contains(err.Error(), "bulkhead: "+field+":") {
			t.Errorf("%s is not named in:\n%v", field, err)
		}
	}
}

func TestZeroPermit(t *testing.T) {
	if (Permit{}).Release() || (Permit{}).Held() {
		t.Error("the zero permit holds something")
	}
}

func TestAllocations(t *testing.T) {
	b := newBulkhead(t, Config{Limit: 4, Queue: 4})
	ctx := t.Context()
	take(t, b).Release()
	pass := func() {
		p, _ := b.Acquire(ctx)
		p.Release()
	}
	if n := testing.AllocsPerRun(1000, pass); n != 0 {
		t.Errorf("a permit: %v allocations", n)
	}
	b = newBulkhead(t, Config{})
	if n := testing.AllocsPerRun(1000, func() { _, _ = b.Acquire(ctx) }); n != 0 {
		t.Errorf("a refusal: %v allocations", n)
	}
}

// cases/overload.md 8: the limit holds at every moment, and all permits come back.
func TestCase_Overload_A8_Hammer(t *testing.T) {
	const limit, goroutines, rounds = 10, 64, 300
	b := newBulkhead(t, Config{Limit: limit, Queue: 32, MaxWait: time.Second})
	var inFlight, highest, admitted atomic.Int64
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range rounds {
				ctx, cancel := context.WithCancel(t.Context())
				if (g+i)%3 == 0 {
					go cancel()
				}
				p, err := b.Acquire(ctx)
				if err == nil {
					n := inFlight.Add(1)
					for h := highest.Load(); n > h && !highest.CompareAndSwap(h, n); h = highest.Load() {
					}
					admitted.Add(1)
					inFlight.Add(-1)
					if (g+i)%2 == 0 {
						go p.Release() // by two, one of them in vain
					}
					p.Release()
				}
				cancel()
			}
		})
	}
	wg.Wait()
	if highest.Load() > limit || admitted.Load() == 0 {
		t.Errorf("%d in flight at once, %d admitted", highest.Load(), admitted.Load())
	}
	wantStats(t, b, 0, 0)
	for range limit {
		take(t, b)
	}
	if _, ok := b.TryAcquire(); ok {
		t.Error("the limit has grown")
	}
}
