package storm

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestIncidentIsWhatItSays(t *testing.T) {
	s := Incident()
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	if x := s.Service.Capacity() / s.Demand; x < 1.4 || x > 1.5 {
		t.Errorf("capacity is %vx of the demand", x)
	}
	queued := time.Duration(float64(s.Service.Queue) / s.Service.Capacity() * float64(time.Second))
	for _, c := range s.Classes {
		if c.Timeout >= queued {
			t.Errorf("%s waits %v for its answer, through the whole queue of %v: the bare service would serve it", c.Name, c.Timeout, queued)
		}
	}
	shares := 0.0
	for _, c := range s.Classes {
		shares += c.Share
	}
	if math.Abs(shares-1) > 1e-9 {
		t.Errorf("shares add up to %v", shares)
	}
}

func TestCheckReportsAllProblemsAtOnce(t *testing.T) {
	s := Scenario{
		Demand: math.NaN(), Length: time.Second, OutageAt: time.Second, Outage: time.Second,
		Classes: []Class{{Name: "x", Share: math.Inf(-1), Manner: 9, Parks: true, Reworded: 2}},
	}
	err := s.Check()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"Demand", "Length", "FreshWithin", "Service", `Classes "x": Share`, "Users", "Manner", "Attempts", "Base", "Timeout", "Parks", "Reworded",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("nothing about %s in\n%v", want, err)
		}
	}
	if err := (Scenario{Demand: 1}).Check(); err == nil || !strings.Contains(err.Error(), "Classes") {
		t.Errorf("nothing about Classes in %v", err)
	}
}

func TestWithinKeepsProportions(t *testing.T) {
	s := Incident()
	half := s.Within(s.Length / 2)
	if half.Outage != s.Outage/2 || half.OutageAt != s.OutageAt/2 || half.Service != s.Service || half.Check() != nil {
		t.Errorf("%+v, %v", half, half.Check())
	}
	if long := s.Within(s.Length * 2); long.Outage != s.Outage || long.Length != s.Length*2 {
		t.Errorf("%+v", long)
	}
}

func TestWithDemandLeavesTheOriginal(t *testing.T) {
	s := Incident()
	users := s.Classes[0].Users
	small := s.WithDemand(s.Demand / 2)
	if s.Classes[0].Users != users || small.Classes[0].Users != users/2 || small.Service.Slots != s.Service.Slots/2 {
		t.Errorf("%+v", small)
	}
	if err := s.WithDemand(0.1).Check(); err != nil {
		t.Error(err)
	}
}

func TestMannerNames(t *testing.T) {
	if Obedient.String() != "obedient" || Disobedient.String() != "disobedient" || Manner(9).String() != "unknown" {
		t.Error(Obedient, Disobedient, Manner(9))
	}
}
