package calendar_test

import (
	"fmt"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate/calendar"
	"github.com/comporta/comporta/gate/keys"
)

func Example() {
	state, err := calendar.NewState(0) // outlives every reload
	if err != nil {
		fmt.Println(err)
		return
	}
	slots, err := calendar.New(calendar.Config{}, state, keys.Random())
	if err != nil {
		fmt.Println(err)
		return
	}

	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	full := calendar.Load{Inflight: 10, Limit: 10} // a service that is known by its limit only
	var last calendar.Booking
	r := &comporta.Request{}
	for i := range 100 {
		*r = comporta.Request{
			Method: "POST", Host: "api.example", Path: "/orders",
			Client: comporta.Client{Key: uint64(i + 1), Class: comporta.ClassVerified},
		}
		slots.LookAt(now, r)
		last = slots.BookAt(now, r, comporta.CapacityExhausted, full)
		if i%33 == 0 {
			fmt.Println("client", i, "returns in", last.Due.Sub(now))
		}
	}

	// The last one shows its ticket too early, and then at its instant.
	r.Ticket = string(slots.AppendTicket(nil, r, last))
	slots.LookAt(now.Add(time.Second), r)
	fmt.Println(r.Slot.State)
	slots.LookAt(last.Due, r)
	fmt.Println(r.Slot.State)
	// Output:
	// client 0 returns in 1s
	// client 33 returns in 3.894s
	// client 66 returns in 6.789s
	// client 99 returns in 9.684s
	// early
	// redeemed
}
