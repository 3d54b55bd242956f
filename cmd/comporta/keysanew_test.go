package main

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

func TestKeysAnew(t *testing.T) {
	const (
		one  = "routes: [{match: POST /orders, name: orders}]\nidempotency: {routes: [orders]}\n"
		shop = "routes: [{match: /shop/, name: shop}]\nidempotency: {routes: [shop]}\n"
		many = "routes: [{match: /shop/, name: shop}, {match: 'PUT /shop/{id}', name: item}, {match: /free}]\nidempotency: {routes: [shop, item, other]}\n"
		jwt  = "clients: {identify: [{jwt: {jwks_url: 'https://a/1', issuer: a, audience: b}}]}\n"
	)
	for _, tc := range []struct {
		name     string
		old, new string
		routes   string
		changed  string
	}{
		{"nothing", many, many, "", ""},
		{"nothing that names", many, many + "admission: {capacity: 5}\nclients: {names: {acme: 0123456789abcdef}, minimum_version: {app: 1.0.0}}", "", ""},
		{"no key was kept", "clients: {identify: []}", one, "", ""},
		{"no key is kept any more", one, "clients: {identify: []}\nroutes: [{match: POST /orders, name: orders}]", "", ""},
		{"how they are kept", one, strings.Replace(one, "[orders]", "[{route: orders, require: true, ttl: 1h}]", 1), "", ""},

		{"the pattern", one, strings.Replace(one, "/orders,", "/v2/orders,", 1), "orders", "routes"},
		{"the name of a wildcard", many, strings.Replace(many, "{id}", "{item}", 1), "item", "routes"},
		{"the method is left open", one, strings.Replace(one, "POST /orders", "/orders", 1), "orders", "routes"},
		{"the name alone", one, strings.NewReplacer("name: orders", "name: buy", "[orders]", "[buy]").Replace(one), "", ""},
		{"the route is gone", many, strings.NewReplacer("{match: 'PUT /shop/{id}', name: item}, ", "", "item, ", "").Replace(many), "item", "routes"},
		{"another route within one", many, strings.Replace(many, "{match: /free}", "{match: /free}, {match: 'DELETE /shop/{id}'}", 1), "shop", "routes"},
		{"another route within none", many, strings.Replace(many, "{match: /free}", "{match: /free}, {match: example.com/pay}", 1), "other", "routes"},
		{"a route of safe requests", many, strings.Replace(many, "{match: /free}", "{match: /free}, {match: GET /pages/}, {match: 'GET /shop/{id}'}", 1), "", ""},
		{"a route that kept none", many, strings.Replace(many, ", {match: /free}", "", 1), "", ""},
		{"a route with escapes", shop, strings.Replace(shop, "shop}", "shop}, {match: '/shop/%61%2Fb'}", 1), "shop", "routes"},
		{"a route with a percent sign", shop, strings.Replace(shop, "shop}", "shop}, {match: '/shop/50%'}", 1), "shop", "routes"},
		{"a route with a slash at its end", shop, strings.Replace(shop, "shop}", "shop}, {match: '/shop/cart/{$}'}", 1), "shop", "routes"},
		{"where the mux would redirect", strings.Replace(many, ", other", "", 1), strings.NewReplacer(", other", "", "{match: /free}", "{match: /free}, {match: /shop}").Replace(many), "", ""},

		{"another source", many, many + "clients: {identify: [{cookie: sid}]}", "other shop item", "clients.identify"},
		{"another cookie", one + "clients: {identify: [{cookie: sid}]}", one + "clients: {identify: [{cookie: id}]}", "orders", "clients.identify"},
		{"shared", one + "clients: {identify: [{cookie: sid}]}", one + "clients: {identify: [{cookie: sid, shared: true}]}", "orders", "clients.identify"},
		{"another network", one + "clients: {identify: []}", one + "clients: {identify: [{network: {ipv4: 24}}]}", "orders", "clients.identify"},
		{"the same network, said", one + "clients: {identify: [{cookie: sid}]}", one + "clients: {identify: [{cookie: sid}, {network: {}}]}", "", ""},
		{"another issuer", one + jwt, one + strings.Replace(jwt, "issuer: a", "issuer: c", 1), "orders", "clients.identify"},
		{"the issuer's keys elsewhere", one + jwt, one + strings.Replace(jwt, "/1", "/2", 1), "", ""},
		{"some kept no more", many, strings.Replace(many, "item, other", "item", 1) + "clients: {identify: [{cookie: sid}]}", "shop item", "clients.identify"},
		{"both", many, strings.Replace(many, "{id}", "{item}", 1) + "clients: {identify: []}", "other shop item", "routes clients.identify"},
	} {
		routes, changed := keysAnew(configured(t, tc.old), configured(t, tc.new))
		if got := strings.Join(routes, " "); got != tc.routes {
			t.Errorf("%s: routes %q, want %q", tc.name, got, tc.routes)
		}
		if got := strings.Join(changed, " "); got != tc.changed {
			t.Errorf("%s: changed %q, want %q", tc.name, got, tc.changed)
		}
	}
}

// A reload that gives keys other names says so, and it is true: what was done is
// done again. One that does not says nothing, and replays.
func TestReloadSaysWhichKeysAreNew(t *testing.T) {
	var n atomic.Int64
	upstream := service(t, orders(&n))
	const kept = "store: {engine: memory}\nidempotency: {on_503: release, routes: [orders]}\n"
	g := start(t, upstream, kept+"routes: [{match: '/{kind}', name: orders}]")
	for _, step := range []struct {
		more    string
		changed []string
	}{
		{"routes: [{match: '/{kind}', name: orders}]\nadmission: {capacity: 7}", nil},
		{"routes: [{match: '/{thing}', name: orders}]", []string{"routes"}},
		{"routes: [{match: '/{thing}', name: orders}]\nclients: {identify: [{header: X-Api-Key, shared: true}]}", []string{"clients.identify"}},
	} {
		if status, _, body := g.post(t, "/orders", "k-1"); status != 201 {
			t.Fatalf("%d %s", status, body)
		}
		before := strings.Count(g.log.String(), "are new from now on")
		g.write(t, upstream, kept+step.more)
		if problems := g.reload(t); problems != "" {
			t.Fatal(problems)
		}
		if _, replayed, _ := g.post(t, "/orders", "k-1"); replayed != (step.changed == nil) {
			t.Errorf("%s: replayed: %v", step.more, replayed)
		}
		if step.changed == nil {
			if strings.Count(g.log.String(), "are new from now on") != before {
				t.Errorf("%s: warned of nothing", step.more)
			}
			continue
		}
		var said struct {
			Level           string
			Routes, Changed []string
		}
		g.log.await(t, "idempotency keys of these routes are new from now on", &said)
		if said.Level != "WARN" || !slices.Equal(said.Routes, []string{"orders"}) || !slices.Equal(said.Changed, step.changed) {
			t.Errorf("%s: %+v", step.more, said)
		}
	}
}

func TestKeysDropped(t *testing.T) {
	const many = "routes: [{match: /shop/, name: shop}, {match: 'PUT /shop/{id}', name: item}]\nidempotency: {routes: [shop, item, other]}\n"
	for _, tc := range []struct{ name, old, new, want string }{
		{"nothing", many, many, ""},
		{"one", many, strings.Replace(many, "item, ", "", 1), "item"},
		{"what matches none", many, strings.Replace(many, ", other", "", 1), "other"},
		{"all", many, strings.Replace(many, "idempotency", "#", 1), "other shop item"},
		{"one that has another name now", many, strings.NewReplacer("name: item", "name: thing", "item, ", "").Replace(many), "item"},
		{"one more", strings.Replace(many, "item, ", "", 1), many, ""},
		{"its keys are new anyway", many, strings.NewReplacer("{id}", "{item}", "item, ", "").Replace(many), ""},
		{"one of safe requests", strings.Replace(many, "PUT", "GET", 1), strings.NewReplacer("PUT", "GET", "item, ", "").Replace(many), ""},
		{"it is gone", many, strings.NewReplacer(", {match: 'PUT /shop/{id}', name: item}", "", "item, ", "").Replace(many), ""},
	} {
		if got := strings.Join(keysDropped(configured(t, tc.old), configured(t, tc.new)), " "); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// A reload that takes a route out of those that keep keys says so, and it is true.
func TestReloadSaysWhichKeysAreKeptNoMore(t *testing.T) {
	var n atomic.Int64
	upstream := service(t, orders(&n))
	const routes = "store: {engine: memory}\nroutes: [{match: /orders, name: orders}]\n"
	g := start(t, upstream, routes+"idempotency: {routes: [orders, other]}")
	for range 2 {
		g.post(t, "/orders", "k-1")
	}
	g.write(t, upstream, routes+"idempotency: {routes: [other]}")
	if problems := g.reload(t); problems != "" {
		t.Fatal(problems)
	}
	if _, replayed, body := g.post(t, "/orders", "k-1"); replayed || body != "order 2" {
		t.Errorf("%v %s", replayed, body)
	}
	var said struct {
		Level  string
		Routes []string
	}
	if g.log.await(t, "idempotency keys of these routes are not kept any more", &said); said.Level != "WARN" || !slices.Equal(said.Routes, []string{"orders"}) {
		t.Errorf("%+v", said)
	}
	if strings.Contains(g.log.String(), "are new from now on") {
		t.Error("said twice")
	}
}
