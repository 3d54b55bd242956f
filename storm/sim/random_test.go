package sim

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Whatever the scenario, no run breaks an invariant.
func TestInvariantsOfRandomScenarios(t *testing.T) {
	all := Defences()
	rapid.Check(t, func(t *rapid.T) {
		s := Incident()
		s.Demand = rapid.Float64Range(0.3, 1.2).Draw(t, "demand")
		s.Warmup = time.Duration(rapid.IntRange(0, 3).Draw(t, "warmup")) * time.Minute
		s.Outage = time.Duration(rapid.IntRange(0, 6).Draw(t, "outage")) * time.Minute
		s.Length = s.Warmup + s.Outage + 12*time.Minute
		s.Service.Slots = rapid.Float64Range(0.5, 3).Draw(t, "slots")
		s.Service.Queue = time.Duration(rapid.IntRange(0, 20).Draw(t, "queue")) * time.Second
		s.Service.Exponential = rapid.Bool().Draw(t, "exponential")
		s.Parking.Share = rapid.Float64Range(0, 1).Draw(t, "parked")
		s.Parking.Unsent = rapid.Float64Range(0, 1).Draw(t, "unsent")
		s.Parking.Period = time.Duration(rapid.IntRange(2, 10).Draw(t, "period")) * time.Minute
		s.Obey = rapid.SampledFrom([]float64{-1, 0, 0.5, 1}).Draw(t, "obey")
		s.Estimate = rapid.Float64Range(0.5, 2).Draw(t, "estimate")
		s.RejectCost = rapid.SampledFrom([]float64{0, 0.1}).Draw(t, "reject cost")
		s.Surge = rapid.SampledFrom([]float64{0, 0, 3}).Draw(t, "surge")
		s.Service.Fails = rapid.SampledFrom([]float64{0, 0, 0.2, 1}).Draw(t, "fails")
		s.Fixes.BudgetSDK = rapid.Bool().Draw(t, "budget")
		d := all[rapid.IntRange(0, len(all)-1).Draw(t, "defence")]
		r, err := Run(&s, d.Name, rapid.Uint64().Draw(t, "seed"))
		if err != nil {
			t.Fatalf("%s: %v", d.Name, err)
		}
		for name, read := range fields {
			if v := read(r); v < 0 || math.IsNaN(v) {
				t.Errorf("%s: %s is %v", d.Name, name, v)
			}
		}
	})
}
