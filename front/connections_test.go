package front

import (
	"net/netip"
	"testing"
)

func TestConnectionsCount(t *testing.T) {
	addr := netip.MustParseAddr
	c := NewConnections(ConnectionLimits{Total: 6, Network: 2, Exempt: func(a netip.Addr) bool { return a == addr("10.0.0.1") }})
	var places []place
	for _, step := range []struct {
		addr string
		ok   bool
	}{
		{"2001:db8::1", true}, {"2001:db8::2", true}, {"2001:db8::3", false}, // one /64
		{"2001:db8:0:1::1", true},
		{"192.0.2.1", true}, {"::ffff:192.0.2.1", true}, {"192.0.2.1", false}, // one address
		{"10.0.0.1", true},
		{"192.0.2.9", false}, // the total
	} {
		p, ok := c.enter(addr(step.addr))
		if ok != step.ok {
			t.Errorf("%s: %t", step.addr, ok)
		}
		if ok {
			places = append(places, p)
		}
	}
	if s := c.Stats(); s.Open != 6 || s.Networks != 3 || s.Refused != 3 {
		t.Errorf("%+v", s)
	}
	c.SetLimits(ConnectionLimits{})
	if p, ok := c.enter(addr("192.0.2.1")); !ok {
		t.Error("limits stay after they are gone")
	} else {
		places = append(places, p)
	}
	for i := range places {
		places[i].leave()
		places[i].leave() // once only
	}
	if s := c.Stats(); s.Open != 0 || s.Networks != 0 {
		t.Errorf("%+v", s)
	}
}
