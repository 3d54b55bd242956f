package store

import (
	"context"
	"time"
)

// Keys keeps idempotency keys.
//
// An engine with a clock of its own goes by that and does not read the instants
// that it is given; the others measure by them, see [Steady]. A record whose
// time is over does not exist to any method, swept or not. Methods may be called
// from many goroutines; an engine keeps none of the slices that it is given, and
// what it returns is the caller's.
//
// An error that is none of this package's says that nothing is known: what was
// asked may have been done or not. Every method that changes a record may be
// asked again with the same arguments, and then says what is.
type Keys interface { //nolint:iface,interfacebloat // engines stand in packages of their own; what a key needs is this much
	// Secret returns the 32 bytes by which names are derived (see Name). They are
	// drawn when the state is made and stay as long as it: with another secret
	// every key would be new, and every operation would run again.
	Secret(ctx context.Context) ([]byte, error)

	// Claim takes a key that has no record, or the lapsed one of fence c.Over, in
	// one step: of all who ask at once one is granted. A claim that is granted
	// already under c.Fence, and is still running, is granted again. Who is not
	// granted gets the record that stands in the way, with its answer.
	Claim(ctx context.Context, now time.Time, c Claim) (Claimed, error)

	// Renew makes the lease of a running or lapsed record end lease from now.
	// ErrLost: the record is not the hold's any more, or is finished.
	Renew(ctx context.Context, now time.Time, h Hold, lease time.Duration) error

	// Finish records the answer, to be kept for ttl from now. It is durable when
	// Finish returns, as far as the engine's Health says. A lapsed record can be
	// finished while nobody has taken it over. ErrLost: it is not the hold's any
	// more. ErrTooLarge: nothing was recorded.
	Finish(ctx context.Context, now time.Time, h Hold, f Finish) error

	// Release forgets a record if it is still the hold's, and still finished or
	// unfinished as finished says. The next claim of the name is granted.
	// ErrLost: it is something else, or gone.
	Release(ctx context.Context, now time.Time, h Hold, finished bool) error

	// Look returns a record with its answer. ErrNotFound: there is none.
	Look(ctx context.Context, now time.Time, n Name) (Record, error)

	// List returns a page of the records that q selects, the newest first where
	// the engine can, without the headers and bodies of answers. A record that
	// lives through the whole listing is on exactly one page; a page may have fewer
	// records than q asks for although there is a next one.
	List(ctx context.Context, now time.Time, q Query) (Page, error)

	// Finished calls yield with the name of every finished record and the instant
	// at which it ends, the newest first where the engine can, until yield returns
	// false. The instant is by the clock of the caller's now.
	Finished(ctx context.Context, now time.Time, yield func(n Name, ends time.Time) bool) error

	// Sweep removes at most limit records whose time is over and returns how many
	// it removed; fewer than limit means that none is left. An engine that forgets
	// by itself returns 0.
	Sweep(ctx context.Context, now time.Time, limit int) (int, error)

	// Health says how the engine is. The error tells why it cannot keep anything
	// at the moment.
	Health(ctx context.Context) (Health, error)

	// Close ends the engine. Calls under way are waited for; later ones are
	// ErrClosed.
	Close() error
}

// Sole marks an engine whose records nobody but its user can change: what was read
// of a finished record holds until its time is over, or its user releases it. Its
// clock is the machine's.
type Sole interface{ Sole() } //nolint:iface // engines stand in packages of their own

// Claim asks for a key.
type Claim struct {
	Name  Name
	Fence int64 // drawn by the claimant, see NewFence; above 0
	// Over is the fence of a lapsed record that is to be taken over; 0 takes over
	// none.
	Over  int64
	Lease time.Duration // how long the claimant is believed to run; above 0
	// TTL is how long the record is kept if nothing more is heard of it; not less
	// than Lease.
	TTL time.Duration
	// Fingerprint tells operations of one key apart. The store keeps it and does
	// not read it.
	Fingerprint []byte
	Label       Label
}

// Label says to people what a record is about. Nothing is decided by it.
type Label struct {
	Client string // as the gateway names clients, never a credential
	Method string
	Route  string
	Key    string // as the client sent it
}

// Claimed is what became of a claim.
type Claimed struct {
	Granted bool
	// Record stands in the way of a claim that was not granted. It is not filled
	// in when the claim was.
	Record Record
}

// Hold names a claim that was granted.
type Hold struct {
	Name  Name
	Fence int64
}

// Finish is how an operation ended.
type Finish struct {
	Answer Answer
	TTL    time.Duration // above 0
	// Fingerprint replaces that of the claim, which may have been made before the
	// whole operation was known; nil leaves it.
	Fingerprint []byte
}

// Answer is what the operation's caller was told.
type Answer struct {
	Status int
	// Header holds lines as on the wire. The store does not read it.
	Header []byte
	Body   []byte
	// Omitted: the body was not kept, because it was too large or not to be had
	// again.
	Omitted bool
}

// State is how far the operation of a record is.
type State uint8

// The states.
const (
	Running  State = iota // by a claimant whose lease has not ended
	Lapsed                // the lease has ended, and nobody knows what became of it
	Finished              // with an answer
	numStates
)

var stateNames = [numStates]string{"running", "lapsed", "finished"}

func (s State) String() string {
	if s < numStates {
		return stateNames[s]
	}
	return "unknown"
}

// ParseState reads what String writes.
func ParseState(s string) (State, bool) {
	for i, name := range stateNames {
		if name == s {
			return State(i), true
		}
	}
	return 0, false
}

// Record is what is known of a key. Its instants are by the clock of the store.
type Record struct {
	Name        Name
	Label       Label
	State       State
	Fence       int64
	Fingerprint []byte
	Created     time.Time     // of the first claim; a takeover leaves it
	LeaseLeft   time.Duration // until a running record lapses; 0 in other states
	Finished    time.Time     // zero unless finished
	Expires     time.Time
	Answer      Answer // of a finished record
	BodySize    int    // of the kept body, also where the body is left out
}

// Query selects records; its zero value selects all.
type Query struct {
	State  *State // nil: any
	Client string // empty: any, as for the rest
	Route  string
	Key    string
	Cursor string // where the page before ended; empty: the first page
	Limit  int    // records a page, 1 to MaxPage; 0 means DefaultPage
}

// Page is part of a listing.
type Page struct {
	Records []Record
	Next    string // the Cursor of the next page; empty: this was the last
}

// Health is how an engine is.
type Health struct {
	Engine  string // sqlite, postgres, redis, memory
	Records int64  // kept at the moment, swept or not; -1: not known without counting
	Bytes   int64  // that they take; -1: not known
	// Loss says in one sentence what a crash or a cut of power can lose of what
	// was recorded; empty: nothing.
	Loss string
}
