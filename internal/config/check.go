package config

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// given reports whether somebody said the key, however rightly.
func (l *loader) given(path string) bool {
	_, ok := l.origins[path]
	return ok
}

// sound reports whether the values at all paths are what was meant. What is
// broken has its problem already, and nothing may be concluded from it.
func (l *loader) sound(paths ...string) bool {
	for p := range l.broken {
		for _, path := range paths {
			if under(p, path) || under(path, p) {
				return false
			}
		}
	}
	return true
}

// routesNamed reports whether the names and patterns of all routes are what was
// meant, so that it can be said which routes there are. A key that there is not may
// be a misspelt name.
func (l *loader) routesNamed() bool {
	route := root().child("routes").elem
	for p := range l.broken {
		_, key, _ := strings.Cut(p, "].")
		if under(p, "routes") && (key == "name" || key == "match" || route.child(key) == nil) {
			return false
		}
	}
	return true
}

// wrongf reports a contradiction at the value of path.
func (l *loader) wrongf(path, hint, format string, args ...any) {
	l.problem(l.origins.at(path), path, fmt.Sprintf(format, args...), hint)
}

// warnf tells of something that works and is likely not meant.
func (l *loader) warnf(path, hint, format string, args ...any) {
	if len(l.warnings) < maxProblems {
		l.warnings = append(l.warnings, l.origins.at(path).problem(path, fmt.Sprintf(format, args...), hint))
	}
}

// derive fills the defaults that depend on other values.
func (l *loader) derive() {
	c := l.c
	if ca := &c.Admission.Capacity; ca.Auto() && !l.given("admission.capacity.initial") {
		ca.Initial = max(min(ca.Initial, ca.Max), ca.Min)
	}
	if c.Slots.Mode == "hash" && !l.given("slots.base") {
		c.Slots.Base = 10 * time.Second
	}
	for i := range c.Clients.Identify {
		s := &c.Clients.Identify[i]
		s.Shared = s.Shared || s.Network != nil && !l.given(fmt.Sprintf("clients.identify[%d].shared", i))
	}
	l.deriveKeys()
	l.deriveStore()
	for i := range c.Listen {
		if c.Listen[i].TLS != nil && !l.given(fmt.Sprintf("listen[%d].h2c", i)) {
			c.Listen[i].H2C = false
		}
	}
}

// contradictions looks at what no single value can get wrong.
func (l *loader) contradictions(in Input) {
	l.checkListeners()
	l.checkUpstreams(in)
	l.checkLimits()
	l.checkReload(in)
	l.checkCapacity()
	l.checkGuards()
	l.checkAdmission()
	l.checkRoutes()
	l.checkRates()
	l.checkRedis()
	l.checkStore()
	l.checkIdempotency()
	l.checkIdentify()
	l.checkNames()
	l.checkProxies()
	l.checkKeys()
}

func (l *loader) checkListeners() {
	c := l.c
	var bound []binding
	bind := func(path, addr string) {
		// Port 0 is another port each time, but a listener is known by its address.
		if addr == "" || strings.HasSuffix(addr, ":0") && strings.HasPrefix(path, "admin") || !l.sound(path) {
			return
		}
		bound = l.checkBinding(bound, bindingOf(path, addr))
	}
	if len(c.Listen) == 0 && l.sound("listen") {
		l.wrongf("listen", "such as :8080", "the gateway must listen somewhere")
	}
	for i, ln := range c.Listen {
		path := fmt.Sprintf("listen[%d]", i)
		bind(path, ln.Addr)
		if ln.ProxyProtocol && len(c.Clients.TrustedProxies) == 0 && l.sound(path, "clients.trusted_proxies") {
			l.wrongf(path+".proxy_protocol", "clients: {trusted_proxies: [10.0.0.0/8]}, with the networks of the balancers", "no peer may send the PROXY protocol, since clients.trusted_proxies is empty: nobody could connect")
		}
		if ln.TLS != nil && ln.H2C && l.sound(path) {
			l.wrongf(path+".h2c", "remove it: a listener with TLS speaks HTTP/2 anyway", "h2c is HTTP/2 without TLS, and the listener has TLS")
		}
	}
	bind("admin.listen", c.Admin.Listen)
	bind("admin.probes", c.Admin.Probes)
	if l.sound("admin.listen", "admin.token_file") && !loopback(c.Admin.Listen) && c.Admin.TokenFile == "" {
		l.wrongf("admin.listen", "set admin.token_file, or listen on 127.0.0.1; probes have admin.probes",
			"%s can be reached from outside, and admin.token_file is not set", show(c.Admin.Listen))
	}
}

func (l *loader) checkUpstreams(in Input) {
	urls := l.c.Upstream.URLs
	if !l.sound("upstream.urls") {
		return
	}
	if len(urls) == 0 && !in.WithoutUpstream {
		l.wrongf("upstream.urls", "comporta serve -upstream http://127.0.0.1:3000, COMPORTA_UPSTREAM_URLS, or upstream: {urls: [http://127.0.0.1:3000]}",
			"there is no service to protect")
	}
	seen := map[string]int{}
	for i, u := range urls {
		key := strings.ToLower(u.Scheme + "://" + u.Host)
		if first, ok := seen[key]; ok {
			l.wrongf(fmt.Sprintf("upstream.urls[%d]", i), "remove one", "the same address as urls[%d]", first)
			continue
		}
		seen[key] = i
	}
}

func (l *loader) checkLimits() {
	buffered, body := l.c.Limits.BufferedBodies, l.c.Repeats.BodyLimit
	if l.sound("limits.buffered_bodies", "repeats.body_limit") && buffered > 0 && body > buffered {
		l.wrongf("repeats.body_limit", "raise limits.buffered_bodies, or lower this", "one body of %v is more than limits.buffered_bodies allows for all, %v", body, buffered)
	}
	d := l.c.Drain
	if total := d.Delay + d.Soft + d.Hard; l.sound("drain") && total > 30*time.Second {
		l.warnf("drain", "raise the grace period of whatever stops the gateway above it", "a shutdown may take %s; Kubernetes and others kill after 30s unless told otherwise", printDuration(total))
	}
	if s := l.c.Slots; l.sound("slots") && s.Base > s.Horizon/2 {
		l.wrongf("slots.base", "lower it, or raise the horizon: between the two lies the room for bookings", "%s is beyond half of slots.horizon, %s", printDuration(s.Base), printDuration(s.Horizon))
	}
}

func (l *loader) checkReload(in Input) {
	if l.c.Reload.Watch && in.File == "" && l.sound("reload") {
		l.warnf("reload.watch", "start with -config FILE", "there is no file to watch")
	}
}

func (l *loader) checkCapacity() {
	const path = "admission.capacity"
	ca := l.c.Admission.Capacity
	if !l.sound(path) {
		return
	}
	if !ca.Auto() {
		for _, key := range []string{"initial", "min", "max"} {
			if p := path + "." + key; l.given(p) {
				l.wrongf(p, "remove it, or set admission.capacity to auto", "the capacity is fixed at %d (%v), so nothing is learned", ca.Static, l.origins.at(path))
			}
		}
		l.checkPool(path, ca.Static)
		return
	}
	const hint = "min ≤ initial ≤ max"
	switch {
	case ca.Min > ca.Max && (l.given(path+".min") || !l.given(path+".max")):
		l.wrongf(path+".min", hint, "min, %d, is above max, %d", ca.Min, ca.Max)
	case ca.Min > ca.Max:
		l.wrongf(path+".max", hint, "max, %d, is below min, %d", ca.Max, ca.Min)
	case ca.Initial < ca.Min:
		l.wrongf(path+".initial", hint, "initial, %d, is below min, %d", ca.Initial, ca.Min)
	case ca.Initial > ca.Max:
		l.wrongf(path+".initial", hint, "initial, %d, is above max, %d", ca.Initial, ca.Max)
	}
	if l.given(path + ".max") {
		l.checkPool(path+".max", ca.Max)
	}
}

// checkPool warns when more may be admitted than there are connections.
func (l *loader) checkPool(path string, n int) {
	up := l.c.Upstream
	pool := up.MaxConnections * max(1, len(up.URLs))
	if l.sound("upstream") && n > pool {
		l.warnf(path, "raise upstream.max_connections, or lower this", "%d requests at once, but %d connections to the service: the rest fails at the pool unless the service speaks HTTP/2", n, pool)
	}
}

func (l *loader) checkAdmission() {
	if l.sound("admission.policy", "admission.reserve") && l.c.Admission.Policy == "priority" && l.given("admission.reserve") {
		l.warnf("admission.reserve", "set admission.policy to reserve, or remove it", "policy priority keeps no reserve")
	}
}

func (l *loader) checkRoutes() {
	const most = 1023 // the index of a route has ten bits, and "other" is 0
	routes := l.c.Routes
	if len(routes) > most {
		l.wrongf("routes", "one pattern may match many paths: /orders/{id}", "%d routes are more than %d", len(routes), most)
		return
	}
	l.checkPatterns()
	names := map[string]int{}
	for i := range routes {
		path := fmt.Sprintf("routes[%d]", i)
		r := &routes[i]
		first, taken := names[r.Label()]
		switch {
		case !l.sound(path+".name", path+".match"):
		case r.Name == "other":
			l.wrongf(path+".name", "choose another", `"other" is the route of the requests that match no route`)
		case taken && l.given(path+".name"):
			l.wrongf(path+".name", "choose another", "routes[%d] has this name", first)
		default:
			names[r.Label()] = i
		}
		if l.sound(path) {
			l.checkRoute(path, r)
		}
	}
}

func (l *loader) checkRoute(path string, r *Route) {
	if r.Exempt {
		says := map[string]bool{"weight": r.Weight != 1, "share": r.Share != 1, "sheddable": r.Sheddable}
		for key, said := range says {
			if said {
				l.wrongf(path+"."+key, "remove it, or exempt", "the route is exempt, so the gate never looks at it")
			}
		}
		return
	}
	if !l.sound("admission.capacity") {
		return
	}
	ca := l.c.Admission.Capacity
	ceiling := ca.Ceiling()
	holds := int(math.Ceil(r.Share * float64(ceiling)))
	const hint = "no request of the route could ever enter: lower the weight, or raise the capacity"
	switch {
	case r.Weight > ceiling:
		l.wrongf(path+".weight", hint, "%d is more than the whole capacity, %d", r.Weight, ceiling)
	case r.Weight > holds:
		l.wrongf(path+".weight", hint+" or the share", "%d is more than the route's share of the capacity, %d", r.Weight, holds)
	case ca.Auto() && r.Weight > ca.Min:
		l.warnf(path+".weight", "raise admission.capacity.min to it", "while the learned capacity is below %d, the route is refused", r.Weight)
	}
}

func (l *loader) checkKeys() {
	if !l.sound("keys", "admission.capacity") {
		return
	}
	if l.c.Keys.File == "" {
		l.warnf("keys.file", "head -c 32 /dev/urandom | base64 > keys, and keys: {file: keys}", "the keys are random: tickets and hashes end with the process, and no replica honours another's")
		return
	}
	if l.c.Admission.Capacity.Auto() && !l.given("admission.capacity.max") {
		l.warnf("admission.capacity.max", "the service's hard bound divided by the replicas; a single gateway needs none", "if the key file is shared by a fleet, each replica learns up to %d on its own", l.c.Admission.Capacity.Max)
	}
}
