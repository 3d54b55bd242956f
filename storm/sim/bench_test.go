package sim

import "testing"

// One incident of four hours at 60 operations a second.
func BenchmarkIncident(b *testing.B) {
	for _, defence := range []string{"none", "limit", "ours"} {
		b.Run(defence, func(b *testing.B) {
			b.ReportAllocs()
			events := uint64(0)
			for b.Loop() {
				s := Incident()
				r, err := Run(&s, defence, 1)
				if err != nil {
					b.Fatal(err)
				}
				events += r.Events
			}
			b.ReportMetric(float64(events)/b.Elapsed().Seconds()/1e6, "Mevents/s")
		})
	}
}
