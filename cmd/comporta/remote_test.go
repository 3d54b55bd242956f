package main

import (
	"strings"
	"testing"
)

// Every command that changes something says who ran it, and the audit writes that
// down as a claim.
func TestAuditNamesWhoRanTheCommand(t *testing.T) {
	g := start(t, service(t, fine), "store: {engine: memory}\nidempotency: {routes: [other]}")
	g.post(t, "/orders", "k")
	for _, tc := range []struct{ args, what, sudo string }{
		{"shed -route other -ttl 1m", "shed add", "ana"},
		{"shed remove 1", "shed remove", "ana"},
		{"policy set max=1", "policy set", "ana"},
		{"policy clear", "policy clear", "ana"},
		{"level pin busy", "level pin", "ana"},
		{"level clear", "level unpin", ""},
		{"keys show k -body", "keys body", "ana"},
		{"keys release k -yes", "keys release", "ana\nroot"}, // fit for neither a field nor a line
	} {
		t.Setenv("SUDO_USER", tc.sudo)
		g.command(t, exitFine, strings.Fields(tc.args)...)
		var line struct {
			What string  `json:"what"`
			User string  `json:"claimed_user"`
			Sudo *string `json:"claimed_sudo_user"`
		}
		g.log.await(t, "audit", &line)
		sudo := strings.ReplaceAll(tc.sudo, "\n", "?")
		if line.What != tc.what || line.User == "" || line.User != operator().User || (line.Sudo == nil) != (sudo == "") || line.Sudo != nil && *line.Sudo != sudo {
			t.Errorf("%s: %+v", tc.args, line)
		}
	}
}
