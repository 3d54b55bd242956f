package config

import (
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strings"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate/idempotency"
)

// The engines of the store.
const (
	EngineSQLite   = "sqlite"
	EnginePostgres = "postgres"
	EngineRedis    = "redis"
	EngineMemory   = "memory"
)

// The defaults of a store.
const (
	defaultStorePath    = "comporta.db"
	defaultStoreBytes   = 16 << 30
	defaultStoreRecords = 100_000
	memoryBytes         = 256 << 20 // of engine memory
)

// StoreURL is the address of a shared store. It may hold a password.
type StoreURL string

// String writes the address without user and password. PostgreSQL takes a password
// among the parameters too: they are then left out as a whole.
func (u StoreURL) String() string {
	address, parameters, _ := strings.Cut(string(u), "?")
	if parameters == "" || !strings.Contains(parameters, "password") && !strings.Contains(parameters, "@") {
		return RedisURL(u).String()
	}
	if strings.Contains(address, "@") || !strings.Contains(parameters, "@") {
		return RedisURL(address).String() + "?" + redacted
	}
	scheme, _, _ := strings.Cut(address, "://") // what stands before an @ may be a password with a question mark
	return scheme + "://" + redacted
}

var storeURLType = &scalarType{
	name:   "URL",
	quoted: true,
	parse: func(text string, _ *rule) (any, *fault) {
		if text == "" {
			return StoreURL(""), nil
		}
		if f := checkStoreURL(text); f != nil {
			return nil, f
		}
		return StoreURL(text), nil
	},
	print:  func(v reflect.Value) string { u, _ := reflect.TypeAssert[StoreURL](v); return u.String() },
	schema: func(*rule) map[string]any { return map[string]any{"type": "string"} },
}

// checkStoreURL never repeats the address: it may hold a password.
func checkStoreURL(text string) *fault {
	const hint = "postgres://user:password@host:5432/database, or redis://user:password@host:6379/0" //nolint:gosec // it shows the form, and is nobody's
	scheme, _, _ := strings.Cut(text, "://")
	switch {
	case strings.HasPrefix(scheme, "redis"):
		return checkRedisURL(text)
	case scheme != "postgres" && scheme != "postgresql":
		return &fault{"this is not the address of a store", hint}
	}
	if u, err := url.Parse(text); err != nil || u.Host == "" && u.Query().Get("host") == "" {
		return &fault{"this is not the address of a PostgreSQL", hint}
	}
	return nil
}

// schemeFits reports whether an address is one of the engine.
func schemeFits(engine string, u StoreURL) bool {
	scheme, _, _ := strings.Cut(string(u), "://")
	if engine == EngineRedis {
		return strings.HasPrefix(scheme, "redis")
	}
	return strings.HasPrefix(scheme, "postgres")
}

// Address is the address with the password, as the configuration or its file has it.
func (s *Store) Address() (string, error) {
	if s.URLFile == "" {
		return string(s.URL), nil
	}
	text, err := readLine(s.URLFile)
	if err != nil {
		return "", inKey("store.url_file", err)
	}
	if f := checkStoreURL(text); f != nil { // the address itself stays unsaid
		return "", inKey("store.url_file", fmt.Errorf("%s: %s: %s", s.URLFile, f.message, f.hint))
	}
	if !schemeFits(s.Engine, StoreURL(text)) {
		return "", inKey("store.url_file", errors.New(s.URLFile+" holds the address of another engine than "+s.Engine))
	}
	return text, nil
}

// KeepsKeys reports whether any route's keys are kept.
func (c *Config) KeepsKeys() bool { return len(c.Idempotency.Routes) > 0 }

// KeyPolicy returns what becomes of keys on the route of a name; nil: they are the
// service's affair.
func (c *Config) KeyPolicy(route string) *idempotency.Policy {
	for i := range c.Idempotency.Routes {
		k := &c.Idempotency.Routes[i]
		label := k.Route
		if r := routeOf(k.Route, c.Routes); r != nil {
			label = r.Label()
		}
		if label == route {
			return &idempotency.Policy{
				Require: k.Require, TTL: k.TTL, Wait: k.InFlight == "wait", Release5xx: k.On5xx == "release",
				Doubt503: k.On503 == "unknown", ExecuteUnknown: k.OnUnknown == "execute", Pass: k.OnStoreFailure == "pass",
			}
		}
	}
	return nil
}

// deriveKeys fills what a route does not say from what is said for all.
func (l *loader) deriveKeys() {
	all := &l.c.Idempotency
	for i := range all.Routes {
		k, path := &all.Routes[i], fmt.Sprintf("idempotency.routes[%d].", i)
		inherit(l, &k.Require, all.Require, path+"require")
		inherit(l, &k.TTL, all.TTL, path+"ttl")
		inherit(l, &k.InFlight, all.InFlight, path+"in_flight")
		inherit(l, &k.On5xx, all.On5xx, path+"on_5xx")
		inherit(l, &k.On503, all.On503, path+"on_503")
		inherit(l, &k.OnUnknown, all.OnUnknown, path+"on_unknown")
		inherit(l, &k.OnStoreFailure, all.OnStoreFailure, path+"on_store_failure")
	}
}

func inherit[T any](l *loader, v *T, from T, path string) {
	if !l.given(path) {
		*v = from
	}
}

// deriveStore keeps a store in memory within it.
func (l *loader) deriveStore() {
	if s := &l.c.Store; s.Engine == EngineMemory && !l.given("store.max_bytes") {
		s.MaxBytes = memoryBytes
	}
}

func (l *loader) checkStore() {
	s := &l.c.Store
	if !l.sound("store") {
		return
	}
	shared := s.Engine == EnginePostgres || s.Engine == EngineRedis
	switch {
	case s.URL != "" && s.URLFile != "":
		l.wrongf("store.url_file", "remove one of the two", "store.url is set already")
	case shared && s.URL == "" && s.URLFile == "":
		l.wrongf("store.engine", "store: {engine: "+s.Engine+", url: …}", "%s has no address", s.Engine)
	case shared && s.URL != "" && !schemeFits(s.Engine, s.URL):
		l.wrongf("store.url", "an address that begins with "+s.Engine+"://", "the address is not that of a %s", s.Engine)
	case !shared && s.URL != "":
		l.wrongf("store.url", "remove it, or set store.engine", "the engine is %s, which has no address", s.Engine)
	case !shared && s.URLFile != "":
		l.wrongf("store.url_file", "remove it, or set store.engine", "the engine is %s, which has no address", s.Engine)
	}
	if s.Engine != EngineSQLite && s.Path != defaultStorePath {
		l.wrongf("store.path", "remove it", "the engine is %s, which has no file here", s.Engine)
	}
	if shared && s.MaxBytes != defaultStoreBytes {
		l.wrongf("store.max_bytes", "remove it", "the engine is %s, whose server has bounds of its own", s.Engine)
	}
	if s.Engine != EngineMemory && s.MaxRecords != defaultStoreRecords {
		l.wrongf("store.max_records", "remove it", "it bounds engine memory, and the engine is %s", s.Engine)
	}
	if s.Engine == EngineMemory && l.c.KeepsKeys() {
		l.warnf("store.engine", "sqlite, or postgres for several gateways", "what was done is forgotten when the gateway ends, and would be done again")
	}
}

func (l *loader) checkIdempotency() {
	i := &l.c.Idempotency
	l.checkKeyedRoutes()
	if !l.sound("idempotency", "routes") {
		return
	}
	for n := range i.Routes {
		if ttl := i.Routes[n].TTL; ttl < i.Lease {
			where := fmt.Sprintf("idempotency.routes[%d].ttl", n)
			if !l.given(where) {
				where = "idempotency.lease"
			}
			l.wrongf(where, "a lease is some seconds, and a ttl some hours", "the ttl, %s, is below the lease, %s", printDuration(ttl), printDuration(i.Lease))
		}
	}
	l.adviseIdempotency()
}

// checkKeyedRoutes looks at which routes are named, whatever else is wrong.
func (l *loader) checkKeyedRoutes() {
	if !l.routesNamed() {
		return
	}
	seen := map[string]int{}
	for n := range l.c.Idempotency.Routes {
		k, at := &l.c.Idempotency.Routes[n], fmt.Sprintf("idempotency.routes[%d].route", n)
		if !l.sound(at) {
			continue
		}
		label, r := k.Route, routeOf(k.Route, l.c.Routes)
		if r != nil {
			label = r.Label()
		}
		first, taken := seen[label]
		if !taken {
			seen[label] = n
		}
		switch {
		case r == nil && label != otherRoute:
			l.wrongf(at, "name one of routes, or other for what matches none", "%s is no route", show(k.Route))
		case r != nil && r.Exempt:
			l.wrongf(at, "remove it, or exempt", "the route is exempt, so nobody looks at its keys")
		case taken:
			l.wrongf(at, "remove one of the two", "idempotency.routes[%d] is this route", first)
		case r != nil:
			if method, _, found := strings.Cut(r.Match, " "); found && comporta.SafeMethod(method) {
				l.warnf(at, "remove it, or name the route of what is written", "the pattern of the route is for %s, and keys of safe methods are never kept", method)
			}
		}
	}
}

// adviseIdempotency tells of what works and may not be meant.
func (l *loader) adviseIdempotency() {
	i := &l.c.Idempotency
	if len(i.Routes) == 0 {
		for _, key := range []string{"require", "ttl", "in_flight", "on_5xx", "on_503", "on_unknown", "on_store_failure"} {
			if path := "idempotency." + key; l.given(path) {
				l.warnf(path, "idempotency: {routes: [other]}", "no key is kept, since idempotency.routes is empty")
				return
			}
		}
		return
	}
	if i.Timeout >= i.Lease {
		where := "idempotency.timeout"
		if !l.given(where) {
			where = "idempotency.lease"
		}
		l.warnf(where, "a timeout far below the lease, a third of which is how often it is renewed",
			"one call to the store may take %s, and the lease is %s: it may be over while the first still runs, whose outcome then passes for unknown", printDuration(i.Timeout), printDuration(i.Lease))
	}
	said := l.given("idempotency.on_503")
	for n := range i.Routes {
		said = said || l.given(fmt.Sprintf("idempotency.routes[%d].on_503", n))
	}
	if !said {
		l.warnf("idempotency.on_503", "on_503: unknown where a proxy stands before the service, on_503: release where none does",
			"after 503 a key is free again; a sidecar or load balancer may answer 503 when the service was asked already")
	}
}

func (k *KeyedRoute) readShort(text string) *fault {
	if f := checkText(text); f != nil {
		return f
	}
	k.Route = text
	return nil
}

func (*KeyedRoute) shortKey() string { return "route" }

func (*KeyedRoute) printShort() (string, bool) { return "", false }

func (*KeyedRoute) shortSchema() map[string]any {
	return map[string]any{"type": "string", "minLength": 1}
}

func (*KeyedRoute) shortForm() string { return "route" }
