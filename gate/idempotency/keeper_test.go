package idempotency

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/store"
	"github.com/comporta/comporta/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// events counts what a Keeper says.
type events struct {
	mu sync.Mutex
	of map[Event]int
}

func (e *events) trace() Trace {
	e.of = map[Event]int{}
	return Trace{Event: func(ev Event) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.of[ev]++
	}}
}

// inBubble gives body a Keeper over a store in virtual time; at its end no call may
// be left.
func inBubble(t *testing.T, wrap func(store.Keys) store.Keys, body func(t *testing.T, k *Keeper, e *events)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var s store.Keys = memstore.New(memstore.Config{})
		if wrap != nil {
			s = wrap(s)
		}
		var e events
		k, err := New(Config{Store: s, Trace: e.trace()})
		if err != nil {
			t.Fatal(err)
		}
		body(t, k, &e)
		synctest.Wait()
		if err := k.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if n := len(k.flights.byName) + len(k.flights.waiters) + k.flights.waiting; n != 0 {
			t.Errorf("%d flights and waiters are left", n)
		}
	})
}

func operation(t *testing.T, k *Keeper, key string, p *Policy) *Operation {
	t.Helper()
	n, err := k.Name(t.Context(), &Scope{Method: "POST", Route: "/r", Key: key})
	if err != nil {
		t.Fatal(err)
	}
	return &Operation{Name: n, Policy: p, Fingerprint: NewFingerprint("/", "").WithNoBody(), Label: store.Label{Key: key}}
}

func mustClaim(t *testing.T, k *Keeper, op *Operation) *Call {
	t.Helper()
	c, v := k.ClaimAt(t.Context(), time.Now(), op)
	if c == nil {
		t.Fatalf("not granted: %+v", v)
	}
	return c
}

func TestCase_Events_B19_HeartbeatsKeepALongCall(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, k *Keeper, e *events) {
		op := operation(t, k, "k", &Policy{ExecuteUnknown: true})
		c := mustClaim(t, k, op)
		for range 20 {
			time.Sleep(time.Minute)
			if r, err := k.Store().Look(t.Context(), time.Now(), op.Name); err != nil || r.State != store.Running {
				t.Fatalf("%+v, %v", r, err)
			}
		}
		c.Finish(store.Answer{Status: 200}, nil)
		if r, err := k.Store().Look(t.Context(), time.Now(), op.Name); err != nil || r.State != store.Finished {
			t.Errorf("%+v, %v", r, err)
		}
		time.Sleep(time.Hour) // no heartbeat is left to trouble it
		if e.of[Lost] != 0 || e.of[Recorded] != 1 {
			t.Errorf("%v", e.of)
		}
	})
}

// A process that is gone renews nothing: that is a second Keeper over the store.
func TestCase_Events_B12_B16_AnswerAfterATakeover(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, k *Keeper, e *events) {
		p := &Policy{ExecuteUnknown: true}
		op := operation(t, k, "k", p)
		stuck := mustClaim(t, k, op)
		stuck.timer.Stop() // as a process that does not get the processor: no heartbeat
		time.Sleep(31 * time.Second)
		other, err := New(Config{Store: k.Store(), Trace: k.config.Trace})
		if err != nil {
			t.Fatal(err)
		}
		second := mustClaim(t, other, op)
		stuck.Finish(store.Answer{Status: 500}, nil)
		second.Finish(store.Answer{Status: 200}, nil)
		r, err := k.Store().Look(t.Context(), time.Now(), op.Name)
		if err != nil || r.Answer.Status != 200 {
			t.Errorf("%+v, %v", r, err)
		}
		if e.of[Lost] != 1 || e.of[TakenOver] != 1 {
			t.Errorf("%v", e.of)
		}
	})
}

func TestEndsOnce(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, k *Keeper, e *events) {
		op := operation(t, k, "k", &Policy{})
		c := mustClaim(t, k, op)
		c.Finish(store.Answer{Status: 200}, nil)
		c.Release()
		c.Abandon()
		c.Finish(store.Answer{Status: 500}, nil)
		if v := k.LookAt(t.Context(), time.Now(), op, false); v.Replay == nil || v.Replay.Answer.Status != 200 {
			t.Errorf("%+v", v)
		}
		if fmt.Sprint(e.of) != fmt.Sprint(map[Event]int{Executed: 1, Recorded: 1}) {
			t.Errorf("%v", e.of)
		}
	})
}

// A flood of duplicates of a key that runs in another process asks the store five
// times a second.
func TestDuplicatesFromElsewhereDoNotLeanOnTheStore(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, k *Keeper, _ *events) {
		asked := 0
		here, err := New(Config{Store: k.Store(), Trace: Trace{Store: func(string, time.Duration, error) { asked++ }}})
		if err != nil {
			t.Fatal(err)
		}
		op := operation(t, here, "k", &Policy{})
		call := mustClaim(t, k, op)
		asked = 0
		for range 1000 {
			if v := here.LookAt(t.Context(), time.Now(), op, true); v.Reason != comporta.IdempotencyInProgress {
				t.Fatalf("%+v", v)
			}
			time.Sleep(time.Millisecond)
		}
		if asked < 4 || asked > 6 {
			t.Errorf("the store was asked %d times in a second", asked)
		}
		call.Finish(store.Answer{Status: 200}, nil)
		time.Sleep(elsewhere)
		if v := here.LookAt(t.Context(), time.Now(), op, true); v.Replay == nil {
			t.Errorf("%+v", v)
		}
		for i := range maxOthers + 10 {
			here.flights.note(time.Now(), &store.Record{Name: nameOf(uint64(i)), LeaseLeft: time.Minute})
		}
		if n := len(here.flights.others); n > maxOthers {
			t.Errorf("%d are remembered", n)
		}
	})
}

// A new Keeper over an old store knows what is finished without asking.
func TestLoad(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, k *Keeper, _ *events) {
		op := operation(t, k, "k", &Policy{})
		mustClaim(t, k, op).Finish(store.Answer{Status: 200}, nil)
		var asked []string
		next, err := New(Config{Store: k.Store(), Trace: Trace{Store: func(op string, _ time.Duration, _ error) { asked = append(asked, op) }}})
		if err != nil {
			t.Fatal(err)
		}
		if v := next.LookAt(t.Context(), time.Now(), op, false); !v.Go() || len(asked) != 0 {
			t.Errorf("%+v, asked %v", v, asked)
		}
		if err := next.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		if v := next.LookAt(t.Context(), time.Now(), op, false); v.Replay == nil {
			t.Errorf("%+v", v)
		}
		time.Sleep(25 * time.Hour)
		asked = nil
		if v := next.LookAt(t.Context(), time.Now(), op, false); !v.Go() || len(asked) != 0 {
			t.Errorf("after its time: %+v, asked %v", v, asked)
		}
	})
}

func TestRunSweeps(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, k *Keeper, _ *events) {
		mustClaim(t, k, operation(t, k, "k", &Policy{TTL: time.Hour})).Finish(store.Answer{Status: 200}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { k.Run(ctx) })
		time.Sleep(2 * time.Hour)
		if h, err := k.Store().Health(t.Context()); err != nil || h.Records != 0 {
			t.Errorf("%+v, %v", h, err)
		}
		cancel()
		all.Wait()
	})
}

// broken is a store whose every method fails while it is broken; each call takes
// its budget.
type broken struct {
	store.Keys

	now   atomic.Bool
	calls atomic.Int64
}

func (b *broken) fail(ctx context.Context) error {
	if !b.now.Load() {
		return nil
	}
	b.calls.Add(1)
	<-ctx.Done()
	return ctx.Err()
}

func (b *broken) Claim(ctx context.Context, now time.Time, c store.Claim) (store.Claimed, error) {
	if err := b.fail(ctx); err != nil {
		return store.Claimed{}, err
	}
	return b.Keys.Claim(ctx, now, c)
}

func (b *broken) Release(ctx context.Context, now time.Time, h store.Hold, finished bool) error {
	if err := b.fail(ctx); err != nil {
		return err
	}
	return b.Keys.Release(ctx, now, h, finished)
}

// A store that hangs costs its budget a few times, and then nothing.
func TestStoreThatHangsIsLeftAlone(t *testing.T) {
	b := &broken{}
	b.now.Store(true)
	inBubble(t, func(s store.Keys) store.Keys { b.Keys = s; return b }, func(t *testing.T, k *Keeper, _ *events) {
		op := operation(t, k, "k", &Policy{})
		start := time.Now()
		for range 100 {
			if c, v := k.ClaimAt(t.Context(), time.Now(), op); c != nil || v.Reason != comporta.IdempotencyUnavailable {
				t.Fatalf("%+v", v)
			}
		}
		if took := time.Since(start); took > 4*DefaultBudget {
			t.Errorf("100 claims took %v", took)
		}
		if n := b.calls.Load(); n > 2*tripAfter {
			t.Errorf("%d calls", n)
		}
		b.now.Store(false)
		time.Sleep(2 * tripFor)
		mustClaim(t, k, op).Release()
	})
}

// lossy is a store that claims and says that it failed.
type lossy struct{ store.Keys }

var errLost = errors.New("the answer was lost")

func (l *lossy) Claim(ctx context.Context, now time.Time, c store.Claim) (store.Claimed, error) {
	_, err := l.Keys.Claim(ctx, now, c)
	return store.Claimed{}, errors.Join(err, errLost)
}

// A claim of which nobody knows is taken back.
func TestClaimWhoseAnswerIsLostIsTakenBack(t *testing.T) {
	inBubble(t, func(s store.Keys) store.Keys { return &lossy{s} }, func(t *testing.T, k *Keeper, _ *events) {
		op := operation(t, k, "k", &Policy{})
		if c, v := k.ClaimAt(t.Context(), time.Now(), op); c != nil || !errors.Is(v.Err, errLost) {
			t.Fatalf("%+v", v)
		}
		synctest.Wait()
		if _, err := k.Store().Look(t.Context(), time.Now(), op.Name); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%v", err)
		}
	})
}

func TestScopesAreApart(t *testing.T) {
	secret := make([]byte, 32)
	seen := map[store.Name]string{}
	for _, s := range []Scope{
		{Key: "k"}, {Key: "k", Method: "POST"}, {Key: "k", Route: "POST"}, {Key: "k", Host: "POST"}, {Method: "k"},
		{Key: "k", Client: []byte("POST")}, {Key: "k", Credentials: http.Header{}},
		{Key: "k", Credentials: http.Header{"Cookie": {"a"}}}, {Key: "k", Credentials: http.Header{"Authorization": {"a"}}},
		{Key: "k", Credentials: http.Header{"Cookie": {"a", "b"}}}, {Key: "k", Credentials: http.Header{"Cookie": {"ab"}}},
		{Client: []byte("a"), Method: "b"}, {Client: []byte("ab")},
	} {
		n := s.name(secret)
		if other, ok := seen[n]; ok {
			t.Errorf("%+v is %s", s, other)
		}
		seen[n] = fmt.Sprintf("%+v", s)
		if s.name([]byte("another secret of this many bytes")) == n {
			t.Error("the secret does not matter")
		}
	}
}

func TestConfigProblemsAllAtOnce(t *testing.T) {
	_, err := New(Config{Store: memstore.New(memstore.Config{}), MaxBody: store.MaxBody + 1, Pool: -1, Lease: time.Millisecond, Budget: -1, Index: 1 << 30})
	for _, want := range []string{"MaxBody", "Pool", "Lease", "Budget", "Index"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not in: %v", want, err)
		}
	}
	if _, err := New(Config{}); err == nil {
		t.Error("no store")
	}
}

// Close waits for calls, and lets none begin.
func TestClose(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, k *Keeper, _ *events) {
		c := mustClaim(t, k, operation(t, k, "k", &Policy{}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := k.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		if call, v := k.ClaimAt(t.Context(), time.Now(), operation(t, k, "l", &Policy{})); call != nil || v.Err == nil {
			t.Errorf("%+v", v)
		}
		time.AfterFunc(time.Minute, func() { c.Finish(store.Answer{Status: 200}, nil) })
		if err := k.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Those who stand by are bounded, for a key and in all.
func TestWaitersAreBounded(t *testing.T) {
	f := newFlights()
	in := 0
	for i := range uint64(2 * MaxWaiters / MaxWaitersKey) {
		for range MaxWaitersKey + 1 {
			if _, err := f.join(nameOf(i)); err == nil {
				in++
			}
		}
	}
	if in != MaxWaiters {
		t.Errorf("%d stand by", in)
	}
	for i := range uint64(MaxWaiters / MaxWaitersKey) {
		for range MaxWaitersKey {
			f.leave(nameOf(i))
		}
	}
	if f.waiting != 0 || len(f.waiters) != 0 {
		t.Errorf("%d of %d are left", f.waiting, len(f.waiters))
	}
}

// What is asked again under a key that runs: not sooner than it may have ended, and
// not at every moment while its answer is still being recorded.
func TestWhenToAskAgain(t *testing.T) {
	now := time.Unix(1e9, 0)
	for _, tc := range []struct{ ran, lease, want time.Duration }{
		{0, 30 * time.Second, time.Second},
		{5 * time.Second, 30 * time.Second, 5 * time.Second},
		{50 * time.Second, 30 * time.Second, 30 * time.Second},
		{5 * time.Second, 20 * time.Millisecond, 20 * time.Millisecond},
		{5 * time.Second, time.Microsecond, time.Millisecond},
		{5 * time.Second, 0, time.Second},
		{5 * time.Second, -3 * time.Second, time.Second},
	} {
		if v := busy(now, now.Add(-tc.ran), tc.lease); v.Wait != tc.want || v.Reason != comporta.IdempotencyInProgress {
			t.Errorf("ran %v, lease %v: %+v, want %v", tc.ran, tc.lease, v, tc.want)
		}
	}
}
