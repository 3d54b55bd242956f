package queue

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestConfigNamesEveryProblem(t *testing.T) {
	_, err := Open(Config{
		MaxItems: -1, MaxBytes: -1, MaxPayload: LargestPayload + 1, PerItem: -1, MaxSpread: LargestWait + 1,
		MaxAttempts: -1, BaseWait: time.Hour, MaxWait: time.Minute,
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, name := range []string{"Path", "MaxItems", "MaxBytes", "MaxPayload", "PerItem", "MaxSpread", "MaxAttempts", "BaseWait"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%q does not name %s", err, name)
		}
	}
}

// cases/client.md D15: the first send lies in U(0, min(n × 200 ms, 5 min)).
func TestCase_Client_D15_SpreadInProportion(t *testing.T) {
	for _, c := range []struct {
		items int
		u     float64
		want  time.Duration
	}{
		{500, 0.5, 50 * time.Second},
		{500, 1, 100 * time.Second},
		{500, 0, 0},
		{1, 1, 200 * time.Millisecond},
		{2000, 0.5, 150 * time.Second}, // 400 s, bounded
		{500, math.NaN(), 0},
		{500, 7, 100 * time.Second},
	} {
		q := &Queue{wake: make(chan struct{}, 1), log: new(log)}
		q.config, _ = prepare(Config{Path: "x"})
		for i := range c.items {
			q.state.apply(&record{kind: kindPut, id: uint64(i + 1), text: fmt.Sprint(i)})
		}
		q.ReconnectedAt(start, c.u)
		if got := q.state.pause.leftAt(start); got != c.want {
			t.Errorf("%d items, u=%v: first send after %v, want %v", c.items, c.u, got, c.want)
		}
	}
}

// cases/client.md D15: ten thousand devices are one tenth of a percent a second, not a wave.
func TestCase_Client_D15_TenThousandDevices(t *testing.T) {
	c, _ := prepare(Config{Path: "x"})
	random := rand.New(rand.NewPCG(1, 2))
	perSecond := make([]int, 101)
	for range 10_000 {
		perSecond[int(portion(random.Float64(), c.spread(500))/time.Second)]++
	}
	if top := slices.Max(perSecond); top > 150 { // 100 expected
		t.Errorf("%d devices begin in one second", top)
	}
}

// cases/client.md D15: keys are minted at enqueue; serial; 5xx re-queues with back-off.
func TestCase_Client_D15_SerialWithBackOff(t *testing.T) {
	q := open(t, Config{})
	var keys []string
	for range 3 {
		item, err := q.EnqueueAt(start, Entry{Payload: []byte("p")}, 0)
		if err != nil || len(item.Key) < 20 {
			t.Fatalf("key %q, %v", item.Key, err)
		}
		keys = append(keys, item.Key)
	}
	now := start
	first := next(t, q, now)
	if first.Key != keys[0] || first.Attempts != 0 {
		t.Fatalf("first is %+v", first)
	}
	if wait := waits(t, q, now); wait != Idle {
		t.Errorf("a second item while one is out: %v", wait)
	}
	settle(t, q, now, first, Result{Fate: Again}, 0.5)
	if wait := waits(t, q, now); wait != 500*time.Millisecond {
		t.Errorf("after one failure the queue waits %v", wait)
	}
	wantKeys(t, "order", waitingKeys(q), keys[1], keys[2], keys[0])
	for i, seconds := range []int{2, 4, 8, 16, 32, 64, 128, 256, 300, 300} {
		want := time.Duration(seconds) * time.Second
		now = now.Add(time.Hour)
		settle(t, q, now, next(t, q, now), Result{Fate: Again, Err: errBusy}, 1)
		if wait := waits(t, q, now); wait != want {
			t.Errorf("after %d failures in a row: %v, want %v", i+2, wait, want)
		}
	}
	now = now.Add(time.Hour)
	item := next(t, q, now)
	if !slices.Contains(keys, item.Key) || item.Attempts < 1 {
		t.Errorf("a repeat has another key: %+v", item)
	}
	settle(t, q, now, item, Result{Fate: Done}, 0)
	settle(t, q, now, next(t, q, now), Result{Fate: Again}, 1)
	if wait := waits(t, q, now); wait != time.Second {
		t.Errorf("a success must end the row of failures: %v", wait)
	}
}

// cases/client.md D15: N failures → dead letter with event.
func TestCase_Client_D15_DeadLetters(t *testing.T) {
	var dead []Letter
	q := open(t, Config{MaxAttempts: 3, Trace: Trace{Dead: func(l Letter) { dead = append(dead, l) }}})
	enqueue(t, q, start, "bad", "good")
	now := start
	for range 2 {
		now = now.Add(time.Hour)
		settle(t, q, now, next(t, q, now), Result{Fate: Again, Err: errBusy}, 1) // bad goes to the end
		now = now.Add(time.Hour)
		if item := next(t, q, now); item.Key == "good" {
			settle(t, q, now, item, Result{Fate: Done}, 0)
		} else {
			settle(t, q, now, item, Result{Fate: Again, Err: errBusy}, 1)
		}
	}
	if len(dead) != 1 || dead[0].Key != "bad" || dead[0].Attempts != 3 || dead[0].Reason != "busy" {
		t.Fatalf("dead letters %+v", dead)
	}
	q = reopen(t, q)
	wantKeys(t, "dead after reopening", deadKeys(q), "bad")
	if string(slices.Collect(q.Letters())[0].Payload) != "payload of bad" {
		t.Error("the letter's payload is lost")
	}
	if err := q.Revive(dead[0].ID); err != nil {
		t.Fatal(err)
	}
	if item := next(t, q, now.Add(time.Hour)); item.Key != "bad" || item.Attempts != 0 {
		t.Errorf("revived: %+v", item)
	}
	if err := q.Revive(dead[0].ID); !errors.Is(err, ErrUnknown) {
		t.Errorf("reviving the living: %v", err)
	}
}

func TestNeverIsDeadAtOnce(t *testing.T) {
	q := open(t, Config{})
	enqueue(t, q, start, "a", "b")
	settle(t, q, start, next(t, q, start), Result{Fate: Never, Err: errors.New("422")}, 1)
	wantKeys(t, "dead", deadKeys(q), "a")
	if item := next(t, q, start); item.Key != "b" {
		t.Errorf("the next waits behind %q", item.Key)
	}
}

func TestOfflineCountsAsNoAttempt(t *testing.T) {
	q := open(t, Config{MaxAttempts: 2})
	enqueue(t, q, start, "a", "b")
	now := start
	for range 100 {
		item := next(t, q, now)
		if item.Key != "a" || item.Attempts != 0 {
			t.Fatalf("offline moved or counted: %+v", item)
		}
		settle(t, q, now, item, Result{Fate: Offline}, 1)
		now = now.Add(waits(t, q, now))
	}
	settle(t, q, now, next(t, q, now), Result{Fate: Offline}, 1)
	q.ReconnectedAt(now, 0.5)
	if wait := waits(t, q, now); wait != 200*time.Millisecond {
		t.Errorf("a reconnection must end the back-off of an absent network: %v", wait)
	}
}

func TestTheServersWait(t *testing.T) {
	for _, c := range []struct {
		name string
		r    Result
		u    float64
		want time.Duration
	}{
		{"exact with a ticket", Result{Wait: 37 * time.Second, Ticket: "v1.x"}, 0, 37 * time.Second},
		{"a second of jitter with a ticket", Result{Wait: 37 * time.Second, Ticket: "v1.x"}, 1, 38 * time.Second},
		{"never below", Result{Wait: 30 * time.Second}, 0, 30 * time.Second},
		{"a tenth without a ticket", Result{Wait: 30 * time.Second}, 1, 33 * time.Second},
		{"beyond MaxWait", Result{Wait: time.Hour}, 0, time.Hour},
		{"saturates", Result{Wait: math.MaxInt64}, 0, LargestWait},
		{"negative is nothing", Result{Wait: -time.Hour}, 1, time.Second},
		{"0 does not lift the back-off", Result{Wait: 0}, 1, time.Second},
		{"a ticket that is none", Result{Wait: 10 * time.Second, Ticket: strings.Repeat("x", 201)}, 1, 11 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := open(t, Config{})
			enqueue(t, q, start, "a", "b")
			settle(t, q, start, next(t, q, start), c.r, c.u)
			if got := waits(t, q, start); got != c.want {
				t.Errorf("waits %v, want %v", got, c.want)
			}
			q = reopen(t, q)
			if got := waits(t, q, start); got != c.want {
				t.Errorf("a restart shortened the wait to %v", got)
			}
			q.ReconnectedAt(start, 0)
			if got := waits(t, q, start); got != c.want {
				t.Errorf("a reconnection shortened the wait to %v", got)
			}
		})
	}
}

func TestATicketKeepsItsPlaceAndIsShown(t *testing.T) {
	q := open(t, Config{})
	enqueue(t, q, start, "a", "b")
	settle(t, q, start, next(t, q, start), Result{Wait: time.Minute, Ticket: "v1.mine"}, 0)
	q = reopen(t, q)
	if item := next(t, q, start.Add(time.Minute)); item.Key != "a" || item.Ticket != "v1.mine" || item.Attempts != 1 {
		t.Errorf("returned as %+v", item)
	}
}

func TestOrderedNothingOvertakes(t *testing.T) {
	q := open(t, Config{Ordered: true, MaxAttempts: 3})
	enqueue(t, q, start, "a", "b")
	now := start
	for range 3 {
		now = now.Add(time.Hour)
		item := next(t, q, now)
		if item.Key != "a" {
			t.Fatalf("%q overtook", item.Key)
		}
		settle(t, q, now, item, Result{}, 1)
	}
	if item := next(t, q, now.Add(time.Hour)); item.Key != "b" {
		t.Errorf("after a's death: %+v", item)
	}
}

func TestAFlappingLinkDrawsOnce(t *testing.T) {
	q := open(t, Config{})
	enqueue(t, q, start, "a", "b", "c", "d", "e")
	q.ReconnectedAt(start, 0.9)
	for i := range 8 {
		now := start.Add(time.Duration(i) * 100 * time.Millisecond)
		q.ReconnectedAt(now, rand.Float64())
		if wait := waits(t, q, now); wait != start.Add(900*time.Millisecond).Sub(now) {
			t.Fatalf("flap %d moved the instant: %v", i, wait)
		}
	}
	if item := next(t, q, start.Add(900*time.Millisecond)); item.Key != "a" {
		t.Errorf("first is %q", item.Key)
	}
}

func TestAClockThatStepsBack(t *testing.T) {
	q := open(t, Config{})
	enqueue(t, q, start, "a")
	settle(t, q, start, next(t, q, start), Result{Wait: time.Minute}, 0)
	back := start.Add(-48 * time.Hour)
	if wait := waits(t, q, back); wait != time.Minute {
		t.Errorf("the step lengthened the wait to %v", wait)
	}
	if wait := waits(t, q, back.Add(30*time.Second)); wait != 30*time.Second {
		t.Errorf("half a minute later %v are left", wait)
	}
	if item := next(t, q, back.Add(time.Minute)); item.Key != "a" {
		t.Errorf("due is %q", item.Key)
	}
}

func TestBounds(t *testing.T) {
	var dropped []string
	q := open(t, Config{MaxItems: 3, MaxBytes: 600, MaxPayload: 400, Trace: Trace{Dropped: func(l Letter) { dropped = append(dropped, l.Key) }}})
	enqueue(t, q, start, "a", "b", "c")
	_, err := q.EnqueueAt(start, Entry{}, 0)
	full, ok := errors.AsType[*FullError](err)
	if !ok || !errors.Is(err, ErrFull) || full.Items != 3 || full.MaxItems != 3 {
		t.Fatalf("a fourth of three: %v", err)
	}
	settle(t, q, start, next(t, q, start), Result{Fate: Never}, 0)
	settle(t, q, start, next(t, q, start), Result{Fate: Never}, 0)
	enqueue(t, q, start, "d") // a makes room
	wantKeys(t, "dropped", dropped, "a")
	wantKeys(t, "dead", deadKeys(q), "b")
	if _, err := q.EnqueueAt(start, Entry{Key: "e", Payload: make([]byte, 360)}, 0); err != nil {
		t.Fatal(err) // 78+78+425 bytes: b makes room
	}
	wantKeys(t, "dropped", dropped, "a", "b")
	if _, err := q.EnqueueAt(start, Entry{Key: "f", Payload: make([]byte, 401)}, 0); !errors.Is(err, ErrTooLarge) {
		t.Errorf("too large: %v", err)
	}
	settle(t, q, start, next(t, q, start), Result{Fate: Done}, 0)
	if _, err := q.EnqueueAt(start, Entry{Key: "g", Payload: make([]byte, 300)}, 0); !errors.Is(err, ErrFull) {
		t.Errorf("too many bytes: %v", err)
	}
	if s := q.Stats(); s.Refused != 2 || s.Dropped != 2 || s.Waiting != 2 || s.Dead != 0 {
		t.Errorf("stats %+v", s)
	}
}

func TestKeys(t *testing.T) {
	q := open(t, Config{})
	enqueue(t, q, start, "k", "k") // the same entry twice is one item
	wantKeys(t, "waiting", waitingKeys(q), "k")
	for key, want := range map[string]error{"k": ErrKeyTaken, "with space": ErrKey, strings.Repeat("x", 256): ErrKey, `"quoted"`: ErrKey} {
		if _, err := q.EnqueueAt(start, Entry{Key: key, Payload: []byte("other")}, 0); !errors.Is(err, want) {
			t.Errorf("key %.20q: %v, want %v", key, err, want)
		}
	}
	settle(t, q, start, next(t, q, start), Result{Fate: Never}, 0)
	if _, err := q.EnqueueAt(start, Entry{Key: "k", Payload: []byte("payload of k")}, 0); !errors.Is(err, ErrKeyTaken) {
		t.Errorf("the key of a dead letter: %v", err)
	}
	letter := slices.Collect(q.Letters())[0]
	if err := q.Discard(letter.ID); err != nil {
		t.Fatal(err)
	}
	enqueue(t, q, start, "k")
}

// purse is a budget with a number of tokens.
type purse struct{ tokens, deposits, refunds int }

func (p *purse) Withdraw() bool {
	if p.tokens == 0 {
		return false
	}
	p.tokens--
	return true
}
func (p *purse) Deposit() { p.deposits++ }
func (p *purse) Refund()  { p.refunds++; p.tokens++ }

// cases/client.md D15: serial within a budget.
func TestCase_Client_D15_Budget(t *testing.T) {
	p := &purse{tokens: 1}
	q := open(t, Config{Budget: p})
	enqueue(t, q, start, "a", "b")
	now := start
	settle(t, q, now, next(t, q, now), Result{}, 0)              // a: a first attempt needs no token
	settle(t, q, now, next(t, q, now), Result{Fate: Done}, 0)    // b
	settle(t, q, now, next(t, q, now), Result{Fate: Offline}, 0) // a: the token comes back
	settle(t, q, now, next(t, q, now), Result{}, 0)              // a: it is spent
	if p.tokens != 0 || p.deposits != 1 || p.refunds != 1 {
		t.Fatalf("purse %+v", *p)
	}
	if wait := waits(t, q, now); wait != DefaultMaxWait {
		t.Errorf("without a token the queue waits %v", wait)
	}
	now = now.Add(DefaultMaxWait)
	settle(t, q, now, next(t, q, now), Result{}, 0) // the probe
	if wait := waits(t, q, now); wait != DefaultMaxWait {
		t.Errorf("after the probe: %v", wait)
	}
	p.tokens = 1
	now = now.Add(DefaultMaxWait)
	settle(t, q, now, next(t, q, now), Result{Fate: Done}, 0)
	if p.tokens != 1 || p.refunds != 1 {
		t.Errorf("the probe took no token, so none comes back: %+v", *p)
	}
}

func TestSettlingWhatIsNotOut(t *testing.T) {
	q := open(t, Config{})
	enqueue(t, q, start, "a", "b")
	item := next(t, q, start)
	for _, id := range []uint64{0, 2, 99} {
		if err := q.SettleAt(start, id, Result{Fate: Done}, 0); !errors.Is(err, ErrUnknown) {
			t.Errorf("settling %d: %v", id, err)
		}
	}
	settle(t, q, start, item, Result{Fate: Done}, 0)
	if err := q.SettleAt(start, item.ID, Result{Fate: Done}, 0); !errors.Is(err, ErrUnknown) {
		t.Errorf("settling twice: %v", err)
	}
	wantKeys(t, "waiting", waitingKeys(q), "b")
}

func TestAnItemThatKillsTheProcess(t *testing.T) {
	var dead []Letter
	c := Config{Path: file(t), MaxAttempts: 3, Trace: Trace{Dead: func(l Letter) { dead = append(dead, l) }}}
	q := open(t, c)
	enqueue(t, q, start, "poison", "b")
	for range 3 {
		if item := next(t, q, start); item.Key != "poison" {
			t.Fatalf("sent %q", item.Key)
		}
		q = reopen(t, q) // dies before it can settle
	}
	if item := next(t, q, start); item.Key != "b" {
		t.Errorf("sent %q", item.Key)
	}
	if len(dead) != 1 || dead[0].Key != "poison" || dead[0].Attempts != 3 {
		t.Errorf("dead %+v", dead)
	}
}

func TestClosed(t *testing.T) {
	q := open(t, Config{})
	enqueue(t, q, start, "a")
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	_, err1 := q.EnqueueAt(start, Entry{}, 0)
	_, _, err2 := q.NextAt(start)
	for _, err := range []error{err1, err2, q.Close()} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
}

func TestWaitingCostsNoAllocation(t *testing.T) {
	q := open(t, Config{})
	enqueue(t, q, start, "a")
	q.ReconnectedAt(start, 1)
	if n := testing.AllocsPerRun(100, func() { _, _, _ = q.NextAt(start) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestFateNames(t *testing.T) {
	if s := fmt.Sprint(Again, Done, Offline, Never, Fate(9)); s != "again done offline never fate(9)" {
		t.Error(s)
	}
}

func TestAForeignFileIsLeftAlone(t *testing.T) {
	name := file(t)
	for _, content := range []string{"x", "#!/bin/sh\nexit 0\n", magic + "12345678"} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(Config{Path: name}); !errors.Is(err, ErrNoQueue) {
			t.Errorf("%q: %v", content, err)
		}
		if got := readFile(t, name); string(got) != content {
			t.Errorf("%q became %q", content, got)
		}
	}
}
