package sim

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestBuiltinsAreValid(t *testing.T) {
	names, abouts := Builtins()
	for i, name := range names {
		s, ok := Builtin(name)
		if !ok || s.Name != name || abouts[i] == "" {
			t.Errorf("%q: %t, named %q, about %q", name, ok, s.Name, abouts[i])
		}
		if err := s.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, ok := Builtin("nothing"); ok {
		t.Error("there is a scenario nothing")
	}
}

func TestCheckReportsAllProblems(t *testing.T) {
	s := Incident()
	s.Demand, s.Decline, s.Estimate, s.Obey, s.Twins = math.NaN(), 1, 0, 2, -1
	s.Length, s.Networks, s.Operations = time.Minute, -1, -1
	s.Service.FailsIn, s.Parking.Spread = 0, 0
	s.Classes[0].Share, s.Classes[1].Users, s.Classes[2].Attempts, s.Classes[3].Obey = 0, 0, 0, 2
	s.Classes[3].Timeout = 0
	err := s.Check()
	if err == nil {
		t.Fatal("nothing is wrong with it")
	}
	for _, want := range []string{
		"demand", "decline", "estimate", "obey: 2", "twins", "length", "networks", "operations", "service", "parking",
		`"web": share`, `"app-new": users`, `"app-old": attempts`, `"partner": obey`, `"partner": timeout`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not reported in:\n%v", want, err)
		}
	}
	if _, err := Run(&s, "none", 1); err == nil {
		t.Error("it was played all the same")
	}
}

func TestSet(t *testing.T) {
	s := Incident()
	other := s
	for key, value := range map[string]string{
		"demand": "40", "outage": "30m", "service.slots": "1.4", "parking.unsent": "0.5", "classes.web.obey": "0.9",
		"classes.partner.keys": "3", "classes.app-old.manner": "reload", "service.exponential": "true", "name": "mine",
	} {
		if err := s.Set(key, value); err != nil {
			t.Error(err)
		}
	}
	web, partner := &s.Classes[0], &s.Classes[3]
	if s.Demand != 40 || s.Outage != 30*time.Minute || s.Service.Slots != 1.4 || s.Parking.Unsent != 0.5 || web.Obey != 0.9 ||
		partner.Keys != 3 || s.Classes[2].Manner != Reload || !s.Service.Exponential || s.Name != "mine" {
		t.Errorf("%+v", s)
	}
	if other.Classes[0].Obey != 0.3 {
		t.Error("a copy changed with it")
	}
	for key, value := range map[string]string{
		"demands": "1", "demand": "many", "outage": "12", "service": "1", "classes.nobody.obey": "1", "classes.web.manner": "nicely",
		"classes": "x", "demand.x": "1", "": "1", "service.exponential": "perhaps", "classes.partner.keys": "1.5",
	} {
		if err := s.Set(key, value); err == nil {
			t.Errorf("%s=%s was accepted", key, value)
		}
	}
}

func TestBoundOf(t *testing.T) {
	s := Incident()
	b := BoundOf(&s)
	// 60/s for 12 min, 70 % parked, of which some lose patience: 27,400 at 27.4/s.
	between(t, "mu", b.Mu, 87, 88)
	between(t, "backlog", b.Backlog, 27_300, 27_500)
	between(t, "minutes", b.BacklogMin, 16.5, 16.9)
	between(t, "fresh", b.FreshMin, 12, 12)
}

func TestExpectation(t *testing.T) {
	e, err := ParseExpectation("ours.fresh_ok >= 0.99")
	if err != nil || e != (Expectation{"ours", "fresh_ok", true, 0.99}) {
		t.Fatalf("%+v, %v", e, err)
	}
	runs := []Summary{{Defence: "ours", Runs: []*Result{{FreshOK: 0.98}, {FreshOK: 0.995}, {FreshOK: 0.992}}}}
	if v, ok := e.Holds(runs); !ok || v != 0.992 {
		t.Errorf("%v, %t", v, ok)
	}
	e.Least = false
	if _, ok := e.Holds(runs); ok {
		t.Error("0.992 is at most 0.99")
	}
	if _, ok := e.Holds(nil); ok {
		t.Error("what was not played holds")
	}
	for _, bad := range []string{"", "ours.fresh_ok > 1", "ours >= 1", "ours.nothing >= 1", "nobody.fresh_ok >= 1", "ours.fresh_ok >= much", "ours.fresh_ok >= NaN", "a b c d"} {
		if _, err := ParseExpectation(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func FuzzParseExpectation(f *testing.F) {
	f.Add("ours.fresh_ok >= 0.99")
	f.Add("none.recovery_min <= 1e3")
	f.Fuzz(func(t *testing.T, text string) {
		e, err := ParseExpectation(text)
		if err != nil {
			return
		}
		if again, err := ParseExpectation(e.String()); err != nil || again != e {
			t.Errorf("%q reads as %+v, and its String as %+v, %v", text, e, again, err)
		}
	})
}

func TestSummary(t *testing.T) {
	s := Summary{Defence: "x", Runs: []*Result{{RecoveryMin: 3, Recovered: true}, {RecoveryMin: 9}, {RecoveryMin: 5, Recovered: true}, {RecoveryMin: 4, Recovered: true}}}
	if m := s.Median("recovery_min"); m != 4.5 {
		t.Errorf("median %v", m)
	}
	if a, b := s.Range("recovery_min"); a != 3 || b != 9 {
		t.Errorf("range %v to %v", a, b)
	}
	if s.Recovered() != 3 || s.Typical().RecoveryMin != 5 || s.Median("nothing") != 0 {
		t.Errorf("%d recovered, typical %v", s.Recovered(), s.Typical().RecoveryMin)
	}
	empty := Summary{Defence: "y"}
	if a, b := empty.Range("waste"); a != 0 || b != 0 || empty.Typical().Defence != "y" {
		t.Error("a summary of nothing says something")
	}
}

func TestCompareReportsErrors(t *testing.T) {
	s := Incident()
	s.Demand, s.Length = 1, 40*time.Minute
	if _, err := Compare(&s, []string{"none"}, 0, nil); err == nil {
		t.Error("no seeds are accepted")
	}
	if _, err := Compare(&s, []string{"none", "nobody"}, 2, nil); err == nil || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("%v", err)
	}
	calls := 0
	got, err := Compare(&s, []string{"none", "limit"}, 3, func(_, all int) {
		if calls++; all != 6 {
			t.Errorf("%d runs in all", all)
		}
	})
	if err != nil || calls != 6 || len(got) != 2 || got[1].Runs[2].Defence != "limit" || got[1].Runs[2].Seed != 3 {
		t.Errorf("%d calls, %v, %+v", calls, err, got)
	}
}
