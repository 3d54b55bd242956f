package storm

import "time"

// Incident is the storm that the project starts from, in compressed time: the
// dependency is away for 4 s (for 12 min), a service with room for 1.45 times
// the demand has queued 1.5 s of work (15 s) when it returns, and its clients
// wait for at most 1 s (10 s). Whatever the service completes from then on,
// nobody waits for any more, and every timeout brings the next attempt.
//
// 150 operations a second keep a small machine far from its own limits: the
// storm must be the service's, not the computer's.
func Incident() Scenario {
	const ms = time.Millisecond
	return Scenario{
		Demand: 150, Length: 27 * time.Second,
		OutageAt: 4 * time.Second, Outage: 4 * time.Second,
		Wake: 5 * time.Second, Spread: 500 * ms,
		FreshWithin: 2 * time.Second, Window: 2 * time.Second,
		Service: Service{Slots: 22, Latency: 100 * ms, Queue: 330, HangsFor: 600 * ms},
		Classes: []Class{
			{
				Name: "web", Share: 0.40, Users: 120, Manner: Naive, Attempts: 5,
				Base: 300 * ms, Cap: 800 * ms, Timeout: 900 * ms, Patience: 6 * time.Second, Reworded: 0.1,
			}, {
				Name: "web that waits", Share: 0.24, Users: 60, Manner: Obedient, Attempts: 5,
				Base: 300 * ms, Cap: 800 * ms, Timeout: 900 * ms, Patience: 10 * time.Second,
			}, {
				Name: "app", Share: 0.20, Users: 60, Manner: Obedient, Attempts: 5,
				Base: 100 * ms, Cap: 800 * ms, Timeout: time.Second, Patience: 20 * time.Second, Keyed: true,
			}, {
				Name: "old app", Share: 0.08, Users: 20, Manner: Naive, Attempts: 18,
				Base: 40 * ms, Cap: 160 * ms, Timeout: 800 * ms, Patience: 8 * time.Second, Parks: true,
			}, {
				Name: "partner", Share: 0.07, Users: 10, Manner: Naive, Attempts: 18,
				Base: 40 * ms, Cap: 200 * ms, Timeout: 800 * ms, Patience: 10 * time.Second, Parks: true, Keyed: true,
			}, {
				Name: "loop", Share: 0.01, Users: 5, Manner: Disobedient,
				Base: 150 * ms, Timeout: 800 * ms, Patience: 8 * time.Second,
			},
		},
		Seed: 1,
	}
}
