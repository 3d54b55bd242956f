package gate

import (
	"net/netip"
	"testing"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate/ratelimit"
)

// pinned is a gate that an operator holds at a level.
func pinned(t *testing.T, c Config, l Level) (*Gate, time.Time) {
	t.Helper()
	g, now := benchGate(t, c), time.Now()
	if err := g.State().PinLevelAt(now, l, now.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	return g, now
}

// From overload on a stranger pays for what a route weighs; who is believed never
// does, and a light route costs the same at every level.
func TestLevelMakesCostlyRoutesDearer(t *testing.T) {
	c := Config{
		Admission: Admission{Capacity: 100},
		Routes:    []Route{{Match: "/report", Name: "report", Weight: 5}, {Match: "/light", Name: "light"}},
	}
	c.RateLimits.Rules = []ratelimit.Rule{{
		Name: "r", Limit: ratelimit.Limit{Rate: ratelimit.Rate{Count: 1, Per: time.Hour}, Burst: 20},
		Network: ratelimit.Limit{Rate: ratelimit.Rate{Count: 1000, Per: time.Hour}}, Subnet: ratelimit.Limit{Rate: ratelimit.Rate{Count: 1000, Per: time.Hour}},
	}}
	for _, tt := range []struct {
		level  Level
		path   string
		proven bool
		left   string
	}{
		{LevelNormal, "/report", false, `"r";r=19;t=3600`},
		{LevelBusy, "/report", false, `"r";r=19;t=3600`},
		{LevelOverload, "/report", false, `"r";r=15;t=3600`},
		{LevelAttack, "/report", false, `"r";r=15;t=3600`},
		{LevelAttack, "/light", false, `"r";r=19;t=3600`},
		{LevelAttack, "/report", true, `"r";r=18;t=3600`},
	} {
		g, now := pinned(t, c, tt.level)
		if tt.proven { // an answer below 400 proves the credential, and costs a unit
			d := g.Begin(now, request("/light"))
			d.FinishAt(now, comporta.Outcome{Status: 200, Result: comporta.ResultSuccess})
		}
		d := g.Begin(now, request(tt.path))
		if got := string(d.Limits.AppendLimit(nil)); d.Action != comporta.ActionAdmit || got != tt.left {
			t.Errorf("%+v: %v, %s", tt, d.Action, got)
		}
		d.FinishAt(now, comporta.Outcome{Status: 404, Result: comporta.ResultSuccess})
	}
}

// The challenge is asked about strangers on pages, from overload on, and about
// nobody else; what it refuses is given back what the rules charged.
func TestLevelAsksForAChallenge(t *testing.T) {
	asked := 0
	proved := false
	c := Config{
		Admission: Admission{Capacity: 100},
		Routes: []Route{
			{Match: "/page", Name: "page", Class: RoutePage}, {Match: "/api", Name: "api"}, {Match: "/own", Name: "own", Class: RouteInternal},
		},
		Challenge: func(_ time.Time, l Level, route *Route, r *comporta.Request) bool {
			if asked++; route.Name != "page" || l < LevelOverload || r.Client.Class.Believed() {
				t.Errorf("asked at %v on %s about %v", l, route.Name, r.Client.Class)
			}
			return proved
		},
	}
	c.RateLimits.Rules = []ratelimit.Rule{{Name: "r", NoAggregates: true, Limit: ratelimit.Limit{Rate: ratelimit.Rate{Count: 1, Per: time.Hour}, Burst: 9}}}
	for _, tt := range []struct {
		level           Level
		path            string
		proven, refused bool
	}{
		{LevelNormal, "/page", false, false}, {LevelBusy, "/page", false, false},
		{LevelOverload, "/page", false, true}, {LevelAttack, "/page", false, true},
		{LevelAttack, "/api", false, false}, {LevelAttack, "/own", false, false}, {LevelAttack, "/page", true, false},
	} {
		g, now := pinned(t, c, tt.level)
		if tt.proven {
			d := g.Begin(now, request("/api"))
			d.FinishAt(now, comporta.Outcome{Status: 200, Result: comporta.ResultSuccess})
		}
		asked, proved = 0, false
		d := g.Begin(now, request(tt.path))
		if got := d.Reason == comporta.ChallengeRequired; got != tt.refused || (asked == 1) != tt.refused {
			t.Errorf("%+v: %v after %d questions", tt, d.Reason, asked)
		}
		if !tt.refused {
			d.FinishAt(now, comporta.Outcome{Status: 404, Result: comporta.ResultSuccess})
			continue
		}
		if d.Action != comporta.ActionRefuse || d.Wait <= 0 {
			t.Errorf("%+v: %v, wait %v", tt, d.Action, d.Wait)
		}
		proved = true
		d = g.Begin(now, request(tt.path))
		if got := string(d.Limits.AppendLimit(nil)); d.Action != comporta.ActionAdmit || got != `"r";r=8;t=3600` {
			t.Errorf("%+v: with the proof %v, %s", tt, d.Action, got)
		}
		d.FinishAt(now, comporta.Outcome{Status: 200, Result: comporta.ResultSuccess})
	}
}

// Who is on the list of the allowed is asked for nothing.
func TestLevelAsksNobodyWhoIsAllowed(t *testing.T) {
	c := Config{
		Admission: Admission{Capacity: 100}, Routes: []Route{{Match: "/page", Name: "page", Class: RoutePage}},
		Challenge: func(time.Time, Level, *Route, *comporta.Request) bool { return false },
	}
	c.RateLimits.Rules = []ratelimit.Rule{{Name: "r", Limit: ratelimit.Limit{Rate: ratelimit.Rate{Count: 1, Per: time.Hour}}}}
	c.RateLimits.Allow.Networks = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	g, now := pinned(t, c, LevelAttack)
	d := g.Begin(now, request("/page"))
	if d.Action != comporta.ActionAdmit {
		t.Errorf("%v", d.Reason)
	}
	d.FinishAt(now, comporta.Outcome{Status: 200, Result: comporta.ResultSuccess})
}
