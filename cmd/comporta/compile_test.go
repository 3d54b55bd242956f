package main

import (
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/comporta/comporta/gate"
	"github.com/comporta/comporta/gate/admission"
	"github.com/comporta/comporta/gate/admission/seek"
	"github.com/comporta/comporta/gate/identity"
	"github.com/comporta/comporta/gate/repeat"
	"github.com/comporta/comporta/internal/config"
)

func configured(t *testing.T, text string) *config.Config {
	t.Helper()
	g := &gateway{file: t.TempDir() + "/comporta.yaml"}
	g.write(t, "http://127.0.0.1:3000", text)
	c, _, err := loaderOf(g.file)()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// 0 means in a file what the configuration says that it means, although the parts
// read 0 as their default.
func TestCompileZeros(t *testing.T) {
	c := configured(t, "limits: {buffered_bodies: 0, uri: 0, body_idle: 0}\naccess_log: {sample: 0}\ntelemetry: {top_clients: 0}\nadmission: {queue_wait: 0}\nclients: {identify: []}")
	g := gateOf(c)
	if g.BufferedBodies != math.MaxInt64 || g.Limits != (gate.Limits{}) {
		t.Errorf("limits: %d, %+v", g.BufferedBodies, g.Limits)
	}
	if g.Admission.QueueWait >= 0 {
		t.Errorf("queue_wait 0 is %v", g.Admission.QueueWait)
	}
	if tel := telemetryOf(c, nil); tel.Sample <= 0 || tel.Sample > 1e-9 || tel.TopClients >= 0 || tel.AccessLog == nil {
		t.Errorf("got %+v", tel)
	}
	k := &compiled{jwks: keySets{}}
	if clients, err := k.clientsOf(&c.Clients, &parts{}); err != nil || len(clients.Identify) != 1 || clients.Identify[0].Kind != identity.KindNetwork {
		t.Errorf("identify []: %+v, %v", clients.Identify, err)
	}
}

func TestCompile(t *testing.T) {
	c := configured(t, `
limits: {uri: 1KiB, body: 2KiB, body_idle: 3s, buffered_bodies: 4MiB}
access_log: {format: off}
routes:
  - {match: /a, weight: 2, share: 0.5, sheddable: true, timeout: 5s}
  - {match: /b, name: bee, class: page, public: true}
  - {match: /c, name: sea, class: internal, exempt: true}
clients:
  trusted_proxies: [10.0.0.0/8]
  identify: [{header: X-Partner, shared: true}, {cookie: sid}, {cookie: tenant, shared: true}, {basic: {}}, {network: {ipv4: 24, ipv6: 48}}]
  names: {acme: 0123456789abcdef}
  minimum_version: {acme-go: 2.1.0, require: true}
repeats: {window: 5m, memory: 1MiB, mode: any, body_limit: 8KiB, hopeless: {after: 5, short_circuit: true}}
admission: {mode: observe, capacity: {initial: 16, min: 4, max: 80}, policy: reserve, reserve: 0.25, queue_wait: 7ms, streams: 9}
slots: {mode: spread, base: 2s, horizon: 20s, grace: 3s}
contract: {dialect: pt-BR, type_base: "https://example.com/p", cors: {origins: ["https://app.example.com"]}}
`)
	g := gateOf(c)
	if want := (gate.Limits{URI: 1 << 10, Body: 2 << 10, BodyIdle: 3e9}); g.Limits != want || g.BufferedBodies != 4<<20 {
		t.Errorf("limits: %+v, %d", g.Limits, g.BufferedBodies)
	}
	want := []gate.Route{
		{Match: "/a", Name: "/a", Weight: 2, Share: 0.5, Sheddable: true, Timeout: 5e9},
		{Match: "/b", Name: "bee", Class: gate.RoutePage, Weight: 1, Share: 1, Public: true},
		{Match: "/c", Name: "sea", Class: gate.RouteInternal, Weight: 1, Share: 1, Exempt: true},
	}
	for i := range want {
		if g.Routes[i] != want[i] {
			t.Errorf("route %d: %+v, want %+v", i, g.Routes[i], want[i])
		}
	}
	if r := g.Repeats; r.Window != 300e9 || r.Memory != 1<<20 || r.Mode != repeat.ModeAny || r.BodyLimit != 8<<10 || r.HopelessAfter != 5 || !r.ShortCircuit {
		t.Errorf("repeats: %+v", r)
	}
	wantAdmission := gate.Admission{
		Auto: seek.Config{Initial: 16, Min: 4, Max: 80}, Mode: admission.ModeObserve, Policy: admission.PolicyReserve, Reserve: 0.25, QueueWait: 7e6, Streams: 9,
	}
	if g.Admission != wantAdmission {
		t.Errorf("admission: %+v, want %+v", g.Admission, wantAdmission)
	}
	if s := g.Slots; s.Mode != "spread" || s.Base != 2e9 || s.Horizon != 20e9 || s.Grace != 3e9 {
		t.Errorf("slots: %+v", s)
	}
	if o := g.Contract; o.Dialect != "pt-BR" || o.TypeBase != "https://example.com/p" || len(o.CORSOrigins) != 1 {
		t.Errorf("contract: %+v", o)
	}
	k := &compiled{jwks: keySets{}}
	clients, err := k.clientsOf(&c.Clients, &parts{})
	if err != nil {
		t.Fatal(err)
	}
	if len(clients.TrustedProxies) != 1 || clients.Names["acme"] == "" || clients.MinimumVersion["acme-go"] != "2.1.0" || !clients.RequireVersion ||
		len(clients.Identify) != 5 || clients.Identify[0] != (identity.Source{Kind: identity.KindHeader, Header: "X-Partner", Shared: true}) ||
		clients.Identify[1] != (identity.Source{Kind: identity.KindCookie, Cookie: "sid"}) ||
		clients.Identify[2] != (identity.Source{Kind: identity.KindCookie, Cookie: "tenant", Shared: true}) ||
		clients.Identify[3].Kind != identity.KindBasic || clients.Identify[4] != (identity.Source{Kind: identity.KindNetwork, IPv4: 24, IPv6: 48}) {
		t.Errorf("clients: %+v", clients)
	}
	if telemetryOf(c, nil).AccessLog != nil {
		t.Error("access_log: off writes one")
	}
	if err := tryCompile(c, 0); err != nil {
		t.Error(err)
	}
}

// telemetry.top_clients: 0 shows nobody, access_log.sample: 0 logs refusals alone.
func TestNobodyIsShown(t *testing.T) {
	g := start(t, service(t, fine), "access_log: {sample: 0}\ntelemetry: {top_clients: 0}")
	for range 5 {
		g.mustServe(t)
	}
	if status, text := g.get(g.admin + "/metrics"); status != http.StatusOK || strings.Contains(text, "comporta_top_client_requests_total{") {
		t.Errorf("%d, clients are shown", status)
	}
	if _, body := g.get(g.admin + "/api/v1/who"); strings.TrimSpace(body) != `{"clients":[]}` {
		t.Errorf("who: %s", body)
	}
	if lines := g.access.String(); lines != "" {
		t.Errorf("admitted requests are logged:\n%s", lines)
	}
	g.command(t, exitFine, "shed", "add", "-route", "other")
	if status, _ := g.get(g.url); status != http.StatusServiceUnavailable {
		t.Errorf("status %d", status)
	}
	g.access.await(t, "request", nil)
}
