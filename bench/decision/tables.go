package main

import (
	"runtime"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate/calendar"
	"github.com/comporta/comporta/gate/identity"
	"github.com/comporta/comporta/gate/keys"
	"github.com/comporta/comporta/gate/repeat"
)

// The sizes of the tables in a gate with the default configuration.
const (
	repeatBytes   = 32 << 20
	provenBytes   = 4 << 20
	calendarBytes = 8 << 20
)

// memory is what tables held after distinct keys went through them.
type memory struct {
	keys       int
	configured int // bytes, all tables together
	heap       int // bytes by which the live heap has grown since before they were made
	evictions  uint64
}

// fill puts distinct keys into the three tables of a gate: each key is seen,
// proven, and refused an instant. What they hold is not asked of them but of the
// heap.
func fill(n int) (m memory, err error) {
	before := liveHeap()
	table, err := repeat.NewTable(repeatBytes)
	if err != nil {
		return m, err
	}
	detector, err := repeat.New(repeat.Config{}, table)
	if err != nil {
		return m, err
	}
	slots, err := calendar.NewState(calendarBytes)
	if err != nil {
		return m, err
	}
	booker, err := calendar.New(calendar.Config{}, slots, keys.Random())
	if err != nil {
		return m, err
	}
	proven := identity.NewProven(provenBytes)

	now := time.Now()
	r := &comporta.Request{Method: "GET", Host: "api.example", Path: "/v1/orders"}
	for i := range n {
		now = now.Add(10 * time.Microsecond)
		r.Client = comporta.Client{Key: spread(i), Network: spread(i >> 4), Class: comporta.Class(i & 1)}
		r.Sighting, r.Slot = comporta.Sighting{}, comporta.Slot{}
		booker.LookAt(now, r)
		detector.SeeAt(now, r, 0, false)
		detector.ResolveAt(now, r, answered)
		proven.ProveAt(now, r.Client.Key)
		booker.BookAt(now, r, comporta.CapacityExhausted, calendar.Load{Inflight: houseCapacity, Limit: houseCapacity})
	}

	m = memory{
		keys: n, configured: repeatBytes + provenBytes + calendarBytes, heap: liveHeap() - before,
		evictions: table.Evictions() + proven.Evicted() + slots.Stats().Evicted,
	}
	runtime.KeepAlive(detector)
	runtime.KeepAlive(booker)
	return m, nil
}

// liveHeap is what is reachable, in bytes.
func liveHeap() int {
	runtime.GC() //nolint:revive // what is reachable is known only after it
	runtime.GC() //nolint:revive // pools let go of what they hold in two steps
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int(s.HeapAlloc)
}
