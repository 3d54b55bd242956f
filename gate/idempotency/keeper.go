package idempotency

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/comporta/comporta/store"
)

// Config is what a Keeper is made of. Only Store is required.
type Config struct {
	Store store.Keys
	// Lease is how long a call is believed to run when nothing is heard of it; it
	// is renewed while it runs. 0 means DefaultLease.
	Lease time.Duration
	// MaxBody is the largest body of an answer that is kept, in bytes; 0 means
	// DefaultMaxBody, at most store.MaxBody. Larger answers are recorded without it.
	MaxBody int
	// Budget bounds each call to the store; 0 means DefaultBudget. An answer's
	// recording may take as often as FinishTries of it before the answer leaves.
	Budget time.Duration
	// Pool is how many calls to the store may be under way; 0 means DefaultPool.
	Pool int
	// Index is how many finished keys are known without asking the store, 8 bytes
	// each; 0 means DefaultIndex.
	Index int
	// Recent is how many bytes of the latest answers are held in memory too, from
	// which repeats are answered; 0 means DefaultRecent.
	Recent int
	// Log is told what goes wrong with the store; nil discards it.
	Log   *slog.Logger
	Trace Trace
}

// The defaults of a Config.
const (
	DefaultLease   = 30 * time.Second
	DefaultMaxBody = 256 << 10
	DefaultBudget  = time.Second
	DefaultPool    = 256
	DefaultIndex   = 1 << 18
	DefaultRecent  = 16 << 20
)

// The bounds of those who stand by for the answer of another.
const (
	MaxWaitersKey = 64
	MaxWaiters    = 1024
)

// Event is something that became of a key, as it is counted.
type Event string

// The events.
const (
	Executed     Event = "executed"         // claimed and called
	Replayed     Event = "replayed"         // answered from the record
	Waited       Event = "waited"           // answered with the answer of the first, which was awaited
	InProgress   Event = "in_progress"      // told that the first still runs
	Mismatch     Event = "payload_mismatch" // the key was used for something else
	Unknown      Event = "outcome_unknown"  // told that nobody knows
	TakenOver    Event = "taken_over"       // run again after a lapse, as the route wants it
	KeyMissing   Event = "key_missing"
	KeyInvalid   Event = "key_invalid"
	Recorded     Event = "recorded"        // the answer is kept
	Late         Event = "late"            // the answer came after its caller had left
	BodyNotKept  Event = "body_not_kept"   // recorded without a body, too large or of a conversation
	Released     Event = "released"        // the key was freed, nothing was done
	Doubted      Event = "in_doubt"        // the call ended without an answer that says what was done
	Lost         Event = "lost"            // the answer came after another had taken the key over
	Unrecorded   Event = "unrecorded"      // the store did not take the answer
	StoreRefused Event = "store_refused"   // refused, since the store is down
	StorePassed  Event = "store_passed"    // let through unprotected, since the store is down
	Crowded      Event = "waiters_crowded" // not let stand by, too many do
)

// Events lists all, for counters that exist from the start.
var Events = []Event{
	Executed, Replayed, Waited, InProgress, Mismatch, Unknown, TakenOver, KeyMissing, KeyInvalid, Recorded,
	Late, BodyNotKept, Released, Doubted, Lost, Unrecorded, StoreRefused, StorePassed, Crowded,
}

// Trace is told what happens. Its fields may be nil; they are called from many
// goroutines.
type Trace struct {
	Event func(Event)
	// Store is told of each call to the store: what was asked, and how long it took.
	Store func(op string, took time.Duration, err error)
}

// Keeper keeps the keys of one process: it claims, renews and finishes them in a
// store that others may share. It outlives the configurations of a gateway.
// Methods may be called from many goroutines.
type Keeper struct {
	config   Config
	index    *index
	recent   *recent
	flights  flights
	trip     trip
	pool     chan struct{}
	secret   atomic.Pointer[[]byte] // nil until the store has told it
	downTold atomic.Int64           // Unix ns of the latest line that says so
	late     chan struct{}          // bounds the answers that are recorded after they have left

	mu     sync.Mutex // guards what follows
	live   int        // calls that have not ended
	idle   chan struct{}
	closed bool
}

// New returns a Keeper. It does not ask the store for anything: see Load and Run.
func New(c Config) (*Keeper, error) {
	if c.Store == nil {
		return nil, errors.New("idempotency: Store is nil: open an engine, memstore for a trial")
	}
	var problems []error
	bound := func(name string, v, most int) {
		if v < 0 || v > most {
			problems = append(problems, fmt.Errorf("idempotency: %s %d is not within 0 and %d", name, v, most))
		}
	}
	bound("MaxBody", c.MaxBody, store.MaxBody)
	bound("Pool", c.Pool, 1<<16)
	bound("Index", c.Index, 1<<26)
	bound("Recent", c.Recent, 1<<30)
	if c.Lease < 0 || c.Lease > store.MaxLease || c.Lease > 0 && c.Lease < time.Second {
		problems = append(problems, fmt.Errorf("idempotency: Lease %v is not within 1s and %v", c.Lease, store.MaxLease))
	}
	if c.Budget < 0 {
		problems = append(problems, fmt.Errorf("idempotency: Budget %v is below 0", c.Budget))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	c.withDefaults()
	hold := sharedHold
	if _, sole := c.Store.(store.Sole); sole {
		hold = store.MaxTTL
	}
	return &Keeper{
		config: c, index: newIndex(time.Now(), c.Index), recent: newRecent(c.Recent, hold), pool: make(chan struct{}, c.Pool),
		late: make(chan struct{}, maxLate), flights: newFlights(),
	}, nil
}

func (c *Config) withDefaults() {
	set := func(v *int, to int) {
		if *v == 0 {
			*v = to
		}
	}
	set(&c.MaxBody, DefaultMaxBody)
	set(&c.Pool, DefaultPool)
	set(&c.Index, DefaultIndex)
	set(&c.Recent, DefaultRecent)
	if c.Lease == 0 {
		c.Lease = DefaultLease
	}
	if c.Budget == 0 {
		c.Budget = DefaultBudget
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

// Store returns the store, for whoever shows its records and releases them.
func (k *Keeper) Store() store.Keys { return watched{k.config.Store, k.recent} }

// MaxBody is the largest body of an answer that is kept.
func (k *Keeper) MaxBody() int { return k.config.MaxBody }

// Count tells the trace of an event that somebody else has seen.
func (k *Keeper) Count(e Event) {
	if k.config.Trace.Event != nil {
		k.config.Trace.Event(e)
	}
}

// ask makes one call to the store, within its budget and the pool, unless the
// store is down.
func (k *Keeper) ask(ctx context.Context, op string, call func(context.Context) error) error {
	if !k.trip.allow(time.Now()) {
		return errDown
	}
	return k.insist(ctx, op, call)
}

// insist is ask for what is owed to the store, down or not.
func (k *Keeper) insist(ctx context.Context, op string, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, k.config.Budget)
	defer cancel()
	select {
	case k.pool <- struct{}{}:
		defer func() { <-k.pool }()
	case <-ctx.Done():
		return fmt.Errorf("idempotency: %s: %d calls to the store are under way: %w", op, k.config.Pool, context.Cause(ctx))
	}
	start := time.Now()
	err := call(ctx)
	took := time.Since(start)
	k.trip.tell(start.Add(took), err)
	if k.config.Trace.Store != nil {
		k.config.Trace.Store(op, took, err)
	}
	return err
}

// ready makes sure that the secret is known.
func (k *Keeper) ready(ctx context.Context) ([]byte, error) {
	if s := k.secret.Load(); s != nil {
		return *s, nil
	}
	var secret []byte
	err := k.ask(ctx, "secret", func(ctx context.Context) (err error) {
		secret, err = k.config.Store.Secret(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(secret) < store.SecretSize {
		return nil, fmt.Errorf("idempotency: the store's secret has %d bytes, not %d", len(secret), store.SecretSize)
	}
	k.secret.Store(&secret)
	return secret, nil
}

// Name returns the name of a scope.
func (k *Keeper) Name(ctx context.Context, s *Scope) (store.Name, error) {
	secret, err := k.ready(ctx)
	if err != nil {
		return store.Name{}, err
	}
	return s.name(secret), nil
}

// begin counts a call that will have to end; false: the Keeper is closed.
func (k *Keeper) begin() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return false
	}
	k.live++
	return true
}

// end says that a call has ended. Whatever it still did is done.
func (k *Keeper) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.live--; k.live == 0 && k.idle != nil {
		close(k.idle)
		k.idle = nil
	}
}

// Close waits until the calls under way have ended, or ctx has. No call begins
// any more. It does not close the store.
func (k *Keeper) Close(ctx context.Context) error {
	k.mu.Lock()
	k.closed = true
	var idle chan struct{}
	if k.live > 0 {
		if k.idle == nil {
			k.idle = make(chan struct{})
		}
		idle = k.idle
	}
	k.mu.Unlock()
	if idle == nil {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("idempotency: calls under keys are still under way: %w", context.Cause(ctx))
	}
}

// Down takes in, for an operation, that the store does not answer: it counts that, and
// writes it down at most once a second. pass says that the policy lets it through.
func (k *Keeper) Down(p *Policy, err error) (pass bool) {
	now := time.Now().UnixNano()
	if told := k.downTold.Load(); now-told > int64(time.Second) && k.downTold.CompareAndSwap(told, now) {
		k.config.Log.Warn("idempotency: the store cannot be used", "error", err)
	}
	if p.Pass {
		k.Count(StorePassed)
	} else {
		k.Count(StoreRefused)
	}
	return p.Pass
}

// Derive returns 32 bytes that are derived from the store's secret (HMAC-SHA256)
// for a purpose: the same in every process that shares the store.
func (k *Keeper) Derive(ctx context.Context, purpose string) ([]byte, error) {
	secret, err := k.ready(ctx)
	if err != nil {
		return nil, err
	}
	h := hmac.New(sha256.New, secret)
	part(h, "derive")
	part(h, purpose)
	return h.Sum(nil), nil
}

// CheckPolicy says what is wrong with a policy under the Keeper's lease.
func (k *Keeper) CheckPolicy(p *Policy) error { return p.Check(k.config.Lease) }
