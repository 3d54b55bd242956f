package front

import (
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"testing"
	"time"
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
	if s := c.Stats(); s.Open != 6 || s.Networks != 3 || s.Total != 6 || s.Accepted != 6 || s.RefusedNetwork != 2 || s.RefusedTotal != 1 {
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

// A connection is counted under what it speaks, from the first word to its end.
func TestConnectionsByProtocol(t *testing.T) {
	taken := make(chan net.Conn, 1)
	h := open(t, Config{H2C: true, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 1 && r.URL.Path == "/take" {
			c, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
			}
			taken <- c
		}
	})})
	count := func(want [numProtocols]int) {
		t.Helper()
		for deadline := time.Now().Add(patience); ; runtime.Gosched() {
			s := h.config.Connections.Stats()
			if s.Protocols == want && s.Open == want[0]+want[1]+want[2] {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%+v, want %v", s, want)
			}
		}
	}
	silent := h.dial(t)
	count([numProtocols]int{ProtocolHTTP1: 1})
	second := h.dial(t)
	preface2(second)
	count([numProtocols]int{ProtocolHTTP1: 1, ProtocolHTTP2: 1})
	_, _ = io.WriteString(silent, "GET /take HTTP/1.1\r\nHost: a\r\n\r\n")
	mine := <-taken
	count([numProtocols]int{ProtocolHTTP2: 1, ProtocolUpgraded: 1})
	_ = second.Close()
	count([numProtocols]int{ProtocolUpgraded: 1})
	_ = mine.Close()
	count([numProtocols]int{})
	if s := h.config.Connections.Stats(); s.Accepted != 2 {
		t.Errorf("%+v", s)
	}
}
