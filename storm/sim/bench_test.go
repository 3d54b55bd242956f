//go:build unix

package sim

import (
	"runtime"
	"syscall"
	"testing"
	"time"
)

// One incident of four hours at 60 operations a second: events for each second of
// one core, and the memory that the process then holds. The time of the core is
// counted and not that of the clock, so that neighbours on the machine do not count.
// What a gate decides is most of an event that it decides on.
func BenchmarkIncident(b *testing.B) {
	for _, defence := range []string{"none", "limit", "ours"} {
		b.Run(defence, func(b *testing.B) {
			b.ReportAllocs()
			events, began := uint64(0), cpu(b)
			for b.Loop() {
				s := Incident()
				r, err := Run(&s, defence, 1)
				if err != nil {
					b.Fatal(err)
				}
				events += r.Events
			}
			took := cpu(b) - began
			var memory runtime.MemStats
			runtime.ReadMemStats(&memory)
			b.ReportMetric(float64(events)/took.Seconds()/1e6, "Mevents/s")
			b.ReportMetric(took.Seconds()/float64(b.N), "s/incident")
			b.ReportMetric(float64(memory.Sys)/1e6, "MB")
		})
	}
}

// cpu is how much of a core the process has used.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(syscall.TimevalToNsec(u.Utime) + syscall.TimevalToNsec(u.Stime))
}
