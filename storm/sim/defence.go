package sim

import "slices"

// Defence is what stands before the service, or what its clients do themselves.
type Defence struct {
	Name   string
	About  string // in one line; for a peer its source and what was simplified
	open   func(*engine) (door, error)
	filter func(*engine) filter
	fixes  func(*Fixes) // of the clients
	replay bool         // finished keys are answered again instead of being carried out again
}

// door decides about attempts: it calls engine.enter, engine.refuse or engine.bar.
type door interface {
	arrive(e *engine, i uint32)
	// done is called at the moment of every evDone that the door has put on the agenda,
	// late at that of every evQueue.
	done(e *engine, ref uint32)
	late(e *engine, ref uint32)
	// inside is how many attempts the door holds to be in the service.
	inside() int
}

// filter is what a client asks itself before it sends.
type filter interface {
	allow(e *engine, o *operation) bool
	learn(e *engine, o *operation) // what became of an attempt that was sent
}

// bare lets everybody in.
type bare struct{}

func (bare) arrive(e *engine, i uint32) { e.enter(i) }
func (bare) done(*engine, uint32)       {}
func (bare) late(*engine, uint32)       {}
func (bare) inside() int                { return 0 }

// opens makes a row's open of a constructor that cannot fail.
func opens[D door](construct func(*engine) D) func(*engine) (door, error) {
	return func(e *engine) (door, error) { return construct(e), nil }
}

// asks makes a row's filter of a constructor.
func asks[F filter](construct func(*engine) F) func(*engine) filter {
	return func(e *engine) filter { return construct(e) }
}

func newBare(*engine) bare { return bare{} }

var defences = []Defence{
	{Name: "none", About: "nothing: the service and its queue", open: opens(newBare)},
	{Name: "limit", About: "at most as many in flight as the service has slots; the rest get a bare 503", open: opens(newLimited(staticRule))},
	{Name: "constant", About: "Retry-After: 30 on every failure, no limit", open: opens(newAdviser(constantWait))},
	{Name: "hash", About: "Retry-After: 10 + hash(client) % 50 on every failure, no limit", open: opens(newAdviser(hashWait))},
	{Name: "doubling", About: "Retry-After: 1, 2, 4 … 64 by the attempt on every failure, no limit", open: opens(newAdviser(doublingWait))},
	{Name: "article", About: "the source article's server: a limit, 30 % of it kept for originals, 10 + hash % 50", open: opens(newArticle)},
	{Name: "ours", About: "the gate with its defaults and its capacity: priority, slot calendar, replay of finished keys", open: openGate(gateOptions{}), replay: true},
	{Name: "ours-auto", About: "the gate with its defaults, learning its capacity", open: openGate(gateOptions{learn: true}), replay: true},
	{Name: "ours-no-replay", About: "the gate without the replay", open: openGate(gateOptions{})},
	{Name: "ours-priority", About: "the gate without its instants: clients read nothing", open: openGate(gateOptions{mute: true}), replay: true},
	{Name: "ours-spread", About: "the gate in slots.mode spread", open: openGate(gateOptions{mode: "spread"}), replay: true},
	{Name: "ours-hash", About: "the gate in slots.mode hash", open: openGate(gateOptions{mode: "hash"}), replay: true},
	{Name: "ours-reserve", About: "the gate with admission.policy reserve", open: openGate(gateOptions{reserve: true}), replay: true},
	{Name: "replay", About: "nothing but the replay of finished keys", open: opens(newBare), replay: true},

	{Name: "ceiling-sdk", About: "our SDK makes at most 4 attempts in one layer", open: opens(newBare), fixes: func(f *Fixes) { f.CeilingSDK = 4 }},
	{Name: "ceiling", About: "all clients make at most 4 attempts in one layer", open: opens(newBare), fixes: func(f *Fixes) { f.CeilingAll = 4 }},
	{Name: "ceiling-spread", About: "the same, and offline queues spread over 12 min", open: opens(newBare), fixes: func(f *Fixes) { f.CeilingAll, f.Spread = 4, offlineSpread }},
	{Name: "spread", About: "offline queues spread over 12 min, no ceiling", open: opens(newBare), fixes: func(f *Fixes) { f.Spread = offlineSpread }},
	{Name: "budget", About: "our SDK has a budget of repeats: client/budget", open: opens(newBare), fixes: func(f *Fixes) { f.BudgetSDK = true }},
	{Name: "switch", About: "a remote switch turns the repeats of our SDK off after 5 min", open: opens(newBare), fixes: func(f *Fixes) { f.SwitchAfter = switchDelay }},

	{Name: "google", About: googleAbout, open: opens(newBare), filter: asks(newGoogle)},
	{Name: "aws", About: awsAbout, open: opens(newBare), filter: asks(newAWS)},
	{Name: "envoy", About: envoyAbout, open: opens(newEnvoy)},
	{Name: "gradient", About: gradientAbout, open: opens(newLimited(gradientRule))},
	{Name: "vegas", About: vegasAbout, open: opens(newLimited(vegasRule))},
	{Name: "aimd", About: aimdAbout, open: opens(newLimited(aimdRule))},
	{Name: "codel-lifo", About: codelAbout, open: opens(newCodel)},
	{Name: "dagor", About: dagorAbout, open: opens(newDagor)},
	{Name: "waf", About: wafAbout, open: opens(newWAF)},
}

// Defences lists all that a scenario can be played with.
func Defences() []Defence { return slices.Clone(defences) }

// DefenceByName finds one.
func DefenceByName(name string) (Defence, bool) {
	for i := range defences {
		if defences[i].Name == name {
			return defences[i], true
		}
	}
	return Defence{}, false
}
