package sim

import "time"

// Delays of what the owners of clients can do.
const (
	offlineSpread = 12 * time.Minute
	switchDelay   = 5 * time.Minute
)

// builtins in the order of the help.
var builtins = []struct {
	name, about string
	make        func() Scenario
}{
	{"incident", "12 min without a dependency, and three hours of storm: the source article's", Incident},
	{"layers", "operations that always fail: how many calls one action becomes", layers},
	{"offline-wave", "a fleet that was offline sends all it kept within a minute", offlineWave},
	{"partner-queue", "three partners with long queues are a third of the demand", partnerQueue},
	{"nat", "80 % of the web comes through ten networks", nat},
	{"short-outage", "3 min: too short for a storm, long enough for harm by a clumsy defence", shortOutage},
	{"disobedient", "the incident, with nobody who reads a Retry-After", disobedient},
	{"steady", "no incident at all: a defence must not be noticed", steady},
	{"metafor", "mpi-sws-rse/metafor, example 1: one server at 95 %, 4 retries, a queue longer than patience", metafor},
	{"metastable-state", "adamfilli/happy-simulator, metastable_state: a surge of 10 s to twice the capacity, 5 attempts without a pause", metastableState},
	{"retry-sim", "mbrooker/simulator_example, retry_sim: half of all calls fail by chance; what repeats make of it", retrySim},
}

// Builtins lists the scenarios that come with the package, each with a line about it.
func Builtins() (names, abouts []string) {
	for _, b := range builtins {
		names, abouts = append(names, b.name), append(abouts, b.about)
	}
	return names, abouts
}

// Builtin returns the scenario of a name.
func Builtin(name string) (Scenario, bool) {
	for _, b := range builtins {
		if b.name == name {
			s := b.make()
			s.Name = name
			return s, true
		}
	}
	return Scenario{}, false
}

// Incident is the incident that the project starts from: the dependency is away
// for 12 minutes, and users see an outage of more than three hours.
//
// Its numbers are the source's where it has them. The rest (how much is parked, the
// gaps between attempts, patience) was chosen so that the curve is the source's: a
// peak of 9x with 85 % repeats, waves after 29 and 58 minutes, normal at 17:10.
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
			Name: "partner", Share: 0.05, Keys: 10, Manner: Layered, Attempts: 90, Innermost: 2,
			Timeout: 8100 * time.Millisecond, Patience: time.Hour, Persistent: true, Obey: 0.5,
		},
	}
}

// layers counts: a queue of 5 deliveries around code of 3 tries, a library of 3 and
// a proxy of 2; five layers of 3; and an envelope of 4.
func layers() Scenario {
	s := Incident()
	s.Demand, s.Operations = 1, 60
	s.Warmup, s.Outage, s.Length, s.Decline = 0, 4*time.Hour, 5*time.Hour, 0
	s.Parking = Parking{}
	s.Layers = Layers{Quick: 200 * time.Millisecond, Gap: 10 * time.Second, Growth: 1, Cap: 10 * time.Second}
	always := Class{
		Share: 1, Keys: 1, Manner: Layered, Innermost: 2, Timeout: 8 * time.Second,
		Patience: 10_000 * time.Hour, // so that nobody gives up before the layers do
	}
	partner, five, sdk := always, always, always
	partner.Name, partner.Attempts = "partner", 5*3*3*2
	five.Name, five.Attempts, five.Innermost = "five-layers", 3*3*3*3*3, 3
	sdk.Name, sdk.Manner, sdk.SDK = "sdk", SDK, true
	s.Classes = []Class{partner, five, sdk}
	s.Twins, s.TwinsNAT, s.Networks = 0, 0, 0
	return s
}

func offlineWave() Scenario {
	s := Incident()
	s.Parking.Share, s.Parking.Unsent, s.Parking.Spread = 0.9, 0.8, time.Minute
	return s
}

func partnerQueue() Scenario {
	s := Incident()
	c := &s.Classes[3]
	c.Share, c.Keys, c.Obey = 0.45, 3, 1
	return s
}

func nat() Scenario {
	s := Incident()
	s.Classes[0].NAT, s.Networks = 0.8, 10
	return s
}

func shortOutage() Scenario {
	s := Incident()
	s.Outage, s.Length = 3*time.Minute, 120*time.Minute
	return s
}

func disobedient() Scenario {
	s := Incident()
	s.Obey = 0
	return s
}

func steady() Scenario {
	s := Incident()
	s.Outage, s.Length = 0, 120*time.Minute
	return s
}

// metafor is example 1 of mpi-sws-rse/metafor, by the parameters of its README: a
// server of 10 a second asked 9.5 times a second, a queue of 100, a timeout of 3 s
// and 4 retries. The trigger is a minute without the dependency.
func metafor() Scenario {
	return Scenario{
		Demand: 9.5, Warmup: 10 * time.Minute, Outage: time.Minute, Length: 90 * time.Minute,
		Service: Service{Slots: 1 / 9.5, Latency: 100 * time.Millisecond, Exponential: true, Queue: 10 * time.Second, FailsIn: 100 * time.Millisecond},
		Classes: []Class{{
			Name: "client", Share: 1, Keys: 100, Manner: Layered, Attempts: 5, Innermost: 5,
			Timeout: 3 * time.Second, Patience: 1000 * time.Hour,
		}},
		Layers: Layers{Quick: time.Millisecond, Gap: time.Second, Growth: 1, Cap: time.Second},
		Obey:   -1, Estimate: 1,
	}
}

// metastableState is metastable_state of adamfilli/happy-simulator, by the
// parameters of its code: a server of 10 a second with an endless queue, 9 a second
// asked and 20 for ten seconds, a timeout of half a second, 5 attempts, the next at
// once. Arrivals are a Poisson stream and not evenly spaced, and the demand does not
// fall in steps at the end: `-sweep demand=3:9:7` shows from where on it recovers.
func metastableState() Scenario {
	return Scenario{
		Demand: 9, Warmup: 10 * time.Minute, Outage: 10 * time.Second, Surge: 20.0 / 9, Length: 40 * time.Minute,
		Service: Service{Slots: 1 / 9.0, Latency: 100 * time.Millisecond, Exponential: true, Queue: time.Hour, FailsIn: 100 * time.Millisecond},
		Classes: []Class{{
			Name: "client", Share: 1, Keys: 100, Manner: Layered, Attempts: 5, Innermost: 5,
			Timeout: 500 * time.Millisecond, Patience: 1000 * time.Hour,
		}},
		Layers: Layers{Quick: time.Millisecond, Gap: time.Second, Growth: 1, Cap: time.Second},
		Obey:   -1, Estimate: 1,
	}
}

// retrySim is retry_sim of mbrooker/simulator_example, by the parameters of its
// code: 100 clients with 10 calls a second each, a server that fails by chance and
// has room for all, 3 repeats at once. Its token bucket is the idea of client/budget.
func retrySim() Scenario {
	class := Class{
		Name: "client", Share: 1, Keys: 100, Manner: Layered, Attempts: 4, Innermost: 4,
		Timeout: 10 * time.Second, Patience: 1000 * time.Hour,
	}
	return Scenario{
		Demand: 1000, Length: 10 * time.Minute, Operations: 30_000,
		Service: Service{Slots: 1, Latency: 20 * time.Millisecond, Queue: time.Minute, FailsIn: 20 * time.Millisecond, Fails: 0.5},
		Classes: []Class{class},
		Layers:  Layers{Quick: time.Millisecond, Gap: time.Second, Growth: 1, Cap: time.Second},
		Obey:    -1, Estimate: 1,
	}
}
