package calendar

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/internal/hash"
)

// Sizes of a State, in bytes.
const (
	DefaultStateBytes = 8 << 20
	MinStateBytes     = 2 << 20
)

// State is what the calendar knows: the schedule, the instants given out, the
// shares of the clients and the estimates. It outlives every reload, and may be
// used by several calendars at once. Its memory is fixed when it is made.
//
// One half of the bytes holds the instants (16 bytes each), a quarter the
// believed identities and a quarter the networks of the rest (104 bytes each).
// With the default 8 MiB that is about 250,000 instants, 19,000 identities and
// 19,000 networks.
type State struct {
	seed hash.Seed

	words   [sides]word
	due     dueRing
	table   *dueTable
	clients [sides]*clientTable
	// quiet is the Unix millisecond after which nothing in the tables is alive:
	// without an incident a look-up ends here.
	quiet atomic.Int64

	estimates
	counters counters
}

// NewState returns an empty state of at most the given bytes, 0 meaning
// DefaultStateBytes.
func NewState(bytes int) (*State, error) { return NewStateFrom(bytes, hash.NewSeed()) }

// NewStateFrom is NewState with names made of a seed, for simulations that must
// repeat themselves.
func NewStateFrom(bytes int, seed hash.Seed) (*State, error) {
	if bytes == 0 {
		bytes = DefaultStateBytes
	}
	if bytes < MinStateBytes {
		return nil, fmt.Errorf("calendar: %d bytes of state are too few; use 0 for the default or at least %d", bytes, MinStateBytes)
	}
	tables := bytes - fixedBytes
	s := &State{
		seed:    seed,
		table:   newDueTable(tables / 2),
		clients: [sides]*clientTable{newClientTable(tables / 4), newClientTable(tables / 4)},
	}
	s.init()
	return s, nil
}

const fixedBytes = int(unsafe.Sizeof(State{}) + unsafe.Sizeof(dueTable{}) + uintptr(sides)*unsafe.Sizeof(clientTable{}))

// Bytes returns the memory that the state holds.
func (s *State) Bytes() int {
	n := fixedBytes + len(s.table.lines)*int(unsafe.Sizeof(dueLine{}))
	for _, t := range s.clients {
		n += len(t.lines) * int(unsafe.Sizeof(clientLine{}))
	}
	return n
}

// operation names the operation of r for the tables of this process.
func (s *State) operation(r *comporta.Request) uint64 {
	return s.seed.Start().Uint(r.Client.Key).Str(r.Method).Str(r.Host).Str(r.Path).
		Str(r.Query).Str(r.IdempotencyKey).Name()
}

// disturb says that the tables hold something alive until an instant.
func (s *State) disturb(until int64) {
	for old := s.quiet.Load(); until > old; old = s.quiet.Load() {
		if s.quiet.CompareAndSwap(old, until) {
			return
		}
	}
}

// counters count what happened, for metrics.
type counters struct {
	booked, plain, kept           atomic.Uint64
	redeemed, aged, early, struck atomic.Uint64
	evicted, beyond               atomic.Uint64
	forged, foreign, expired, old atomic.Uint64
}

// Stats counts what became of slots and tickets since the state was made.
type Stats struct {
	Booked   uint64 // new instants that took a place
	Plain    uint64 // new instants over a client's share, which took none
	Kept     uint64 // refusals that got the instant given before
	Redeemed uint64 // requests that came at their instant, aged ones included
	Aged     uint64 // those refused there before
	Early    uint64 // requests before their instant
	Struck   uint64 // early arrivals that were held against a client
	Beyond   uint64 // new instants for which the schedule had no place within its bound
	Evicted  uint64 // instants lost to a full table: their tickets still hold

	TicketsForged  uint64 // our key id, but not our MAC for this operation
	TicketsForeign uint64 // not in our form, or of a key that we do not know
	TicketsExpired uint64
	TicketsUsed    uint64 // genuine, but used or replaced on this node
}

// Stats returns the counts.
func (s *State) Stats() Stats {
	c := &s.counters
	return Stats{
		Booked: c.booked.Load(), Plain: c.plain.Load(), Kept: c.kept.Load(),
		Redeemed: c.redeemed.Load(), Aged: c.aged.Load(), Early: c.early.Load(), Struck: c.struck.Load(),
		Beyond: c.beyond.Load(), Evicted: c.evicted.Load(),
		TicketsForged: c.forged.Load(), TicketsForeign: c.foreign.Load(),
		TicketsExpired: c.expired.Load(), TicketsUsed: c.old.Load(),
	}
}
