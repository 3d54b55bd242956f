package admission

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

// cases/overload.md 6: a weight that never fits is an error of the configuration.
func TestCase_Overload_A6_WeightThatNeverFits(t *testing.T) {
	l := new(learner)
	for _, tt := range []struct {
		c    Config
		fits bool
	}{
		{Config{Capacity: 4, Routes: []Route{{Weight: 10}}}, false},
		{Config{Capacity: 10, Routes: []Route{{Weight: 10}}}, true},
		{Config{Capacity: 10, Routes: []Route{{Weight: 6, Share: 0.5}}}, false},
		{Config{Capacity: 10, Routes: []Route{{Weight: 5, Share: 0.41}}}, true},
		{Config{Learner: l, Ceiling: 8, Routes: []Route{{Weight: 9}}}, false},
		{Config{Learner: l, Routes: []Route{{Weight: 9}}}, true},
		{Config{Capacity: 0, Routes: []Route{{Weight: 9}}}, true}, // nothing enters anyway
	} {
		_, err := New(tt.c, new(State))
		if (err == nil) != tt.fits {
			t.Errorf("%+v: %v", tt.c, err)
		}
	}
}

// All problems are reported at once, each with its field.
func TestAllProblemsAtOnce(t *testing.T) {
	_, err := New(Config{
		Mode: 7, Policy: 9, Capacity: -1, Ceiling: -1, Reserve: math.NaN(), QueueWait: -time.Second, Streams: -1,
		Routes: []Route{{Weight: -1}, {Name: "a", Share: 0.5}, {Name: "a", Share: 2}, {Name: "a", Share: 0.25}},
	}, nil)
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{
		"state:", "Mode:", "Policy:", "Capacity:", "Ceiling:", "Reserve:", "QueueWait:", "Streams:",
		`Routes[0] "": Weight:`, `Routes[2] "a": Share: 2 `, `Routes[3] "a": Share: 0.25, but 0.5`,
	} {
		if !strings.Contains(err.Error(), "admission: "+want) {
			t.Errorf("no problem of %s in:\n%v", want, err)
		}
	}
	for _, reserve := range []float64{-0.1, 1.1, math.Inf(1)} {
		if _, err := New(Config{Reserve: reserve}, new(State)); err == nil {
			t.Errorf("reserve %v accepted, though the policy does not use it", reserve)
		}
	}
	if _, err := New(Config{Routes: make([]Route, maxRoutes+1)}, new(State)); err == nil {
		t.Error("too many routes accepted")
	}
}

// Words of routes that come and go do not pile up.
func TestRouteWordsAreBounded(t *testing.T) {
	var s State
	for i := range 100 {
		routes := make([]Route, 100)
		for j := range routes {
			routes[j].Name = fmt.Sprintf("%d/%d", i, j)
		}
		newController(t, Config{Routes: routes}, &s)
	}
	if n := len(s.routes); n > 2*maxRoutes {
		t.Errorf("%d words", n)
	}
}

func TestPortion(t *testing.T) {
	for _, tt := range []struct {
		share float64
		limit int
		want  int
	}{{1, 7, 7}, {0.5, 7, 4}, {0.07, 100, 7}, {0.29, 100, 29}, {0.001, 10, 1}, {0.5, 0, 0}} {
		if got := portion(tt.share, tt.limit); got != tt.want {
			t.Errorf("portion(%v, %d) = %d, want %d", tt.share, tt.limit, got, tt.want)
		}
	}
}
