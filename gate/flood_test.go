package gate_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate"
)

// stage runs a gate in front of a service of fixed latency, on a clock of its
// own: no goroutine, no transport, a step a millisecond.
type stage struct {
	gate    *gate.Gate
	now     time.Time
	latency time.Duration
	waiting []*visit
	running []*visit
}

type visit struct {
	r       comporta.Request
	d       gate.Decision
	name    string
	arrived time.Time
	ends    time.Time
}

func (s *stage) arrive(name string, header http.Header, path string, addr netip.Addr) *visit {
	v := &visit{name: name, arrived: s.now}
	v.r = comporta.Request{Method: "POST", Host: "api", Path: path, Header: header, Remote: addr, IdempotencyKey: ""}
	v.d = s.gate.Begin(s.now, &v.r)
	switch v.d.Action {
	case comporta.ActionAdmit:
		s.run(v)
	case comporta.ActionWait:
		s.waiting = append(s.waiting, v)
	case comporta.ActionRefuse, comporta.ActionReplay:
	}
	return v
}

func (s *stage) run(v *visit) {
	v.ends = s.now.Add(s.latency)
	s.running = append(s.running, v)
}

// step lets a millisecond pass; served is called with what ended in it.
func (s *stage) step(served func(*visit)) {
	s.now = s.now.Add(time.Millisecond)
	kept := s.running[:0]
	for _, v := range s.running {
		if v.ends.After(s.now) {
			kept = append(kept, v)
			continue
		}
		v.d.FinishAt(s.now, comporta.Outcome{Status: 200, Result: comporta.ResultSuccess, Latency: s.latency})
		if served != nil {
			served(v)
		}
	}
	s.running = kept
	queue := s.waiting[:0]
	for _, v := range s.waiting {
		switch {
		case !v.d.AnswerAt(s.now):
			queue = append(queue, v)
		case v.d.Action == comporta.ActionAdmit:
			s.run(v)
		}
	}
	s.waiting = queue
}

// A flood of invented identities, each with a request of its own, cannot outrank
// a proven client, push its instant away or make the gate forget it; and the
// verdict names it.
func TestFloodOfInventedIdentities(t *testing.T) {
	c := static(20, 100*time.Millisecond)
	c.Slots.Horizon = time.Minute
	g, err := gate.New(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{gate: g, now: time.Unix(1_800_000_000, 0), latency: 100 * time.Millisecond}
	proven := func(i int) (http.Header, string) {
		return http.Header{"X-Api-Key": {fmt.Sprintf("customer-%d", i%20)}}, fmt.Sprintf("/orders/%d", i)
	}
	home := netip.MustParseAddr("198.51.100.7")
	for i := range 40 { // a calm minute proves the customers
		h, path := proven(i)
		s.arrive("customer", h, path, home)
		for range 120 {
			s.step(nil)
		}
	}
	const judged = 1500 // ms until the verdict has seen enough to favour the proven
	asked, served, early, worst := 0, 0, 0, time.Duration(0)
	invented, flood := 0, s.now
	for ms := range 20_000 {
		for range 5 { // 5,000/s against a service of 200/s
			invented++
			addr := netip.AddrFrom4([4]byte{byte(10 + invented%90), byte(invented >> 8), byte(invented >> 16), byte(invented)})
			s.arrive("invented", http.Header{"X-Api-Key": {fmt.Sprintf("x-%d", invented)}}, fmt.Sprintf("/%d", invented), addr)
		}
		if ms%20 == 0 { // customers, 50/s
			asked++
			h, path := proven(1000 + asked)
			v := s.arrive("customer", h, path, home)
			if v.r.Client.Class != comporta.ClassProven {
				t.Fatalf("after %d ms a customer is %v: the flood pushed the proof away", ms, v.r.Client.Class)
			}
			if v.d.Action == comporta.ActionRefuse {
				worst = max(worst, v.d.Wait)
			}
		}
		s.step(func(v *visit) {
			switch {
			case v.name != "customer":
			case v.arrived.Before(flood.Add(judged * time.Millisecond)):
				early++
			default:
				served++
			}
		})
		if ms == 15_000 {
			if got := g.State().VerdictAt(s.now); got != gate.VerdictAttack {
				t.Errorf("the verdict is %v: %+v", got, g.State().TrafficAt(s.now))
			}
		}
	}
	if later := asked - judged/20; served < later-later/100 {
		t.Errorf("%d of %d customers were served once the verdict was known, and %d of %d before", served, later, early, judged/20)
	}
	if worst > 10*time.Second {
		t.Errorf("a customer was told to wait %v", worst)
	}
	if e := g.StatsAt(s.now); e.Inflight > 20 {
		t.Errorf("%d in flight above the limit", e.Inflight)
	}
}

// The verdict follows who is refused and what they ask, not the volume.
func TestVerdicts(t *testing.T) {
	for _, tc := range []struct {
		name    string
		traffic gate.Traffic
		want    gate.Verdict
	}{
		{"quiet", gate.Traffic{Requests: 5, Refused: 5}, gate.VerdictNormal},
		{"calm", gate.Traffic{Requests: 1000, Repeats: 20}, gate.VerdictNormal},
		{"the incident: 85 % repeats of known clients", gate.Traffic{Requests: 9000, Repeats: 7650, Refused: 8000, RefusedBelieved: 6400}, gate.VerdictBacklog},
		{"a flood of the unseen", gate.Traffic{Requests: 9000, Repeats: 200, Refused: 8000, RefusedBelieved: 50}, gate.VerdictAttack},
		{"repeats of nobody known", gate.Traffic{Requests: 9000, Repeats: 7650, Refused: 8000}, gate.VerdictMixed},
		{"a sale: known clients, new requests", gate.Traffic{Requests: 9000, Repeats: 500, Refused: 3000, RefusedBelieved: 2800}, gate.VerdictMixed},
		{"many repeats, room for all", gate.Traffic{Requests: 1000, Repeats: 300}, gate.VerdictBacklog},
	} {
		if got := tc.traffic.Verdict(); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestLeversAndPolicy(t *testing.T) {
	g, err := gate.New(gate.Config{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_800_000_000, 0)
	s := &stage{gate: g, now: now, latency: time.Millisecond}
	addr := netip.MustParseAddr("192.0.2.1")
	ask := func(version string, n int) comporta.Reason {
		h := http.Header{"X-Api-Key": {"k"}}
		if version != "" {
			h.Set("Client-Version", version)
		}
		v := s.arrive("", h, fmt.Sprintf("/%d", n), addr)
		for range 3 {
			s.step(nil)
		}
		return v.d.Reason
	}
	l, err := g.State().ShedAt(now, gate.Lever{Version: "app/1.0.0", Percent: 100, Until: now.Add(time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	if got := ask("app/1.0.0", 1); got != comporta.ShedByOperator {
		t.Errorf("the shed version: %v", got)
	}
	if got := ask("app/1.0.1", 2); got != comporta.ReasonNone {
		t.Errorf("another version: %v", got)
	}
	g.State().UnshedAt(s.now, l.ID)
	if got := ask("app/1.0.0", 3); got != comporta.ReasonNone {
		t.Errorf("after removal: %v", got)
	}
	if _, err := g.State().ShedAt(s.now, gate.Lever{Route: "other", Percent: 30, Until: s.now.Add(time.Minute)}); err != nil {
		t.Fatal(err)
	}
	shed := 0
	for i := range 1000 {
		if ask("", 100+i) == comporta.ShedByOperator {
			shed++
		}
	}
	if shed < 230 || shed > 370 {
		t.Errorf("%d of 1000 were shed, want about 300", shed)
	}
	s.now = s.now.Add(2 * time.Minute)
	if got := ask("", 100); got != comporta.ReasonNone || len(g.State().LeversAt(s.now)) != 0 {
		t.Errorf("a lever outlived its time: %v", got)
	}
	for _, bad := range []gate.Lever{{Percent: 100, Until: s.now.Add(time.Minute)}, {Route: "x", Percent: 101, Until: s.now.Add(time.Minute)}, {Route: "x", Percent: 1, Until: s.now.Add(48 * time.Hour)}} {
		if _, err := g.State().ShedAt(s.now, bad); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
	if err := g.State().SetPolicyAt(s.now, gate.Policy{MaxAttempts: 1, MinWait: 2 * time.Second, Until: s.now.Add(10 * time.Minute)}); err != nil {
		t.Fatal(err)
	}
	p, ok := g.State().PolicyAt(s.now)
	if !ok || p.HeaderAt(s.now) != "max=1;min-ms=2000;ttl=600" {
		t.Errorf("%+v %v", p, ok)
	}
}
