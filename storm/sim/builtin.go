package sim

import "time"

// Delays of what the owners of clients can do.
const (
	offlineSpread = 12 * time.Minute
	switchDelay   = 5 * time.Minute
)

// Incident is the incident that the project starts from: the dependency is away
// for 12 minutes, and users see an outage of more than three hours.
func Incident() Scenario {
	return Scenario{
		Name: "incident", Demand: 60,
		Warmup: 10 * time.Minute, Outage: 12 * time.Minute, Length: 255 * time.Minute, Decline: 0.07,
		Service: Service{Slots: 1.5, Latency: 1030 * time.Millisecond, Queue: 15300 * time.Millisecond, FailsIn: 50 * time.Millisecond},
		Classes: incidentClasses(),
		Parking: Parking{Share: 0.7, Unsent: 0.25, Period: 29 * time.Minute, Spread: 406 * time.Second},
		Layers:  Layers{Quick: 200 * time.Millisecond, Gap: 63 * time.Second, Growth: 1.66, Cap: 29 * time.Minute, Jitter: 0.2},
		Twins:   0.01, TwinsNAT: 0.10, Networks: 40,
		Obey: -1, Estimate: 1,
	}
}

func incidentClasses() []Class {
	return []Class{
		{
			Name: "web", Share: 0.69, Users: 200, Manner: Reload, Timeout: 10 * time.Second, Patience: 90 * time.Second,
			Obey: 0.3, Reload: 0.2, NewKey: 0.3, NAT: 0.3, Lookup: 0.2,
		}, {
			Name: "app-new", Share: 0.20, Users: 100, Manner: SDK, SDK: true, Timeout: 10 * time.Second, Patience: 120 * time.Second,
			Obey: 1,
		}, {
			Name: "app-old", Share: 0.059, Users: 40, Manner: Layered, Attempts: 18, Innermost: 2,
			Timeout: 8100 * time.Millisecond, Patience: time.Hour, Persistent: true,
		}, {
			Name: "partner", Share: 0.05, Keys: 10, Shared: true, Manner: Layered, Attempts: 90, Innermost: 2,
			Timeout: 8100 * time.Millisecond, Patience: time.Hour, Persistent: true, Obey: 0.5,
		},
	}
}
