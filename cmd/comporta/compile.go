package main

import (
	"errors"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/breaker"
	"github.com/comporta/comporta/gate"
	"github.com/comporta/comporta/gate/admission"
	"github.com/comporta/comporta/gate/admission/seek"
	"github.com/comporta/comporta/gate/calendar"
	"github.com/comporta/comporta/gate/identity"
	"github.com/comporta/comporta/gate/identity/jwtidentity"
	"github.com/comporta/comporta/gate/keys"
	"github.com/comporta/comporta/gate/overload"
	"github.com/comporta/comporta/gate/policydoc"
	"github.com/comporta/comporta/gate/ratelimit"
	"github.com/comporta/comporta/gate/repeat"
	"github.com/comporta/comporta/internal/config"
	"github.com/comporta/comporta/proxy"
	"github.com/comporta/comporta/telemetry"
)

// compiled is a gate and what stands around it, made from one configuration.
type compiled struct {
	config *config.Config
	gate   *gate.Gate
	proxy  *proxy.Proxy
	policy *policydoc.Handler // nil: the path belongs to the service
	jwks   keySets            // to be fetched while this one serves
	store  *limitStore        // nil: no rule is shared
}

// ServeHTTP answers the policy document before anything that could shed it, and
// passes everything else through the gate.
func (k *compiled) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if k.policy != nil && r.URL.Path == policydoc.Path {
		k.policy.ServeHTTP(w, r)
		return
	}
	k.gate.Serve(w, r, k.proxy)
}

// parts outlive a configuration. The zero value has none: what is compiled with it
// counts for itself and tells nobody.
type parts struct {
	state     *gate.State
	telemetry *telemetry.Telemetry
	log       *slog.Logger
	jwks      keySets      // of the configuration before; read only
	proxy     *proxy.Proxy // of the configuration before, whose upstreams are kept
	published uint64       // version of the policy document of the configuration before
	store     *limitStore  // of the configuration before; nil: none
	keys      *keyKeeper   // of this process, once a configuration keeps keys; nil: none yet
	connect   bool         // to what the configuration names; false while one is tried
}

// tryCompile finds what is wrong beyond the words of a configuration, and leaves
// everything as it was. published is the version of the policy document that
// clients have heard, 0 for none.
func tryCompile(c *config.Config, published uint64) error {
	missing := c.CheckFiles()
	problems, _ := errors.AsType[config.Problems](missing)
	rest := *c // without what is missing: that is told already, with its place
	for _, p := range problems {
		switch p.Path {
		case "keys.file":
			rest.Keys.File = ""
		case "admin.token_file":
			rest.Admin.TokenFile = ""
		case "retry_policy.file":
			rest.RetryPolicy.File = ""
		case "store.url_file":
			rest.Idempotency.Routes = nil // judged when it is there
		case "redis.url_file", "redis.password_file", "redis.sentinel_password_file", "redis.ca_file":
			rest.Redis, rest.RateLimits = config.Redis{}, nil // judged when all are there
		default:
			rest.Listen = nil // the certificates are read when all are there
		}
	}
	k, err := compile(&rest, &parts{log: slog.New(slog.DiscardHandler), published: published})
	if err == nil {
		k.proxy.Close()
	}
	return errors.Join(missing, checkSecrets(&rest), err)
}

// compile makes the parts of a gateway.
func compile(c *config.Config, p *parts) (*compiled, error) {
	k := &compiled{config: c, jwks: keySets{}}
	gc := gateOf(c)
	if p.telemetry != nil {
		gc.Trace = p.telemetry.Trace()
	}
	var noKeys, noClients, noRates, noStore, noGate, noPolicy, noProxy error
	if c.Keys.File != "" {
		gc.Keys, noKeys = keys.Load(c.Keys.File)
		if info, err := os.Stat(c.Keys.File); err == nil && info.Mode().Perm()&0o077 != 0 {
			p.log.Warn("others can read the key file, and forge tickets with it", "file", c.Keys.File, "mode", info.Mode().Perm().String())
		}
	}
	gc.RateLimits, noRates = ratesOf(c)
	if c.SharesLimits() && noRates == nil && noKeys == nil {
		var store ratelimit.Store
		store, k.store, noRates = p.storeOf(c, gc.Keys)
		gc.RateLimits.Stores = map[string]ratelimit.Store{config.StoreRedis: store}
	}
	gc.Clients, noClients = k.clientsOf(&c.Clients, p)
	if c.KeepsKeys() {
		gc.Idempotency, noStore = p.idempotencyOf(c)
	}
	if noClients == nil && noRates == nil && noStore == nil { // with half of the clients the gate would name problems that are none
		k.gate, noGate = gate.New(gc, p.state)
	}
	if c.RetryPolicy.File != "" && k.gate != nil {
		k.policy, noPolicy = policydoc.New(policydoc.Config{File: c.RetryPolicy.File, Writer: k.gate.Contract(), Above: p.published})
	}
	k.proxy, noProxy = proxy.New(k.proxyOf(&c.Upstream, p))
	if err := errors.Join(noKeys, noClients, noRates, noStore, noGate, noPolicy, noProxy); err != nil {
		if k.store != p.store {
			k.store.close(p.log)
		}
		return nil, err
	}
	return k, nil
}

// gateOf is the gate's part of a configuration, but for the keys and the clients.
func gateOf(c *config.Config) gate.Config {
	g := gate.Config{
		Routes: routesOf(c),
		Repeats: gate.Repeats{
			Config:       repeat.Config{Window: c.Repeats.Window, FailedWindow: max(c.Repeats.FailedWindow, c.Repeats.Window), HopelessAfter: c.Repeats.Hopeless.After, BodyLimit: int64(c.Repeats.BodyLimit)},
			Memory:       int(c.Repeats.Memory),
			ShortCircuit: c.Repeats.Hopeless.ShortCircuit,
		},
		Admission:      admissionOf(&c.Admission),
		Slots:          calendar.Config{Mode: calendar.Mode(c.Slots.Mode), Base: c.Slots.Base, Horizon: c.Slots.Horizon, Grace: c.Slots.Grace},
		NameRequests:   true,
		Contract:       overload.Config{Dialect: c.Contract.Dialect, TypeBase: c.Contract.TypeBase, CORSOrigins: c.Contract.CORS.Origins},
		BufferedBodies: int64(c.Limits.BufferedBodies),
		Limits:         gate.Limits{URI: int(c.Limits.URI), Body: int64(c.Limits.Body), BodyIdle: c.Limits.BodyIdle},
	}
	if c.Limits.BufferedBodies == 0 {
		g.BufferedBodies = math.MaxInt64 // no limit, where the gate reads 0 as its default
	}
	if c.Repeats.Mode == "any" {
		g.Repeats.Mode = repeat.ModeAny
	}
	return g
}

func routesOf(c *config.Config) []gate.Route {
	classes := map[string]gate.RouteClass{"api": gate.RouteAPI, "page": gate.RoutePage, "internal": gate.RouteInternal}
	list := make([]gate.Route, len(c.Routes))
	for i := range c.Routes {
		r := &c.Routes[i]
		list[i] = gate.Route{
			Match: r.Match, Name: r.Label(), Class: classes[r.Class], Weight: r.Weight, Share: r.Share,
			Sheddable: r.Sheddable, Public: r.Public, Exempt: r.Exempt, Timeout: r.Timeout, Idempotency: c.KeyPolicy(r.Label()),
		}
	}
	return list
}

func admissionOf(a *config.Admission) gate.Admission {
	g := gate.Admission{Capacity: a.Capacity.Static, QueueWait: a.QueueWait, Streams: a.Streams}
	if g.QueueWait == 0 {
		g.QueueWait = -1 // no queue, as the configuration says
	}
	if a.Capacity.Static == 0 {
		g.Auto = seek.Config{Initial: a.Capacity.Initial, Min: a.Capacity.Min, Max: a.Capacity.Max}
	}
	if a.Mode == "observe" {
		g.Mode = admission.ModeObserve
	}
	if a.Policy == "reserve" {
		g.Policy, g.Reserve = admission.PolicyReserve, a.Reserve
	}
	return g
}

func (k *compiled) clientsOf(c *config.Clients, p *parts) (identity.Config, error) {
	ic := identity.Config{
		TrustedProxies: c.TrustedProxies, Names: c.Names,
		MinimumVersion: c.MinimumVersion.Versions, RequireVersion: c.MinimumVersion.Require,
	}
	var problems []error
	for i := range c.Identify {
		s, err := k.sourceOf(&c.Identify[i], p)
		problems = append(problems, err)
		ic.Identify = append(ic.Identify, s)
	}
	if len(c.Identify) == 0 { // the network is the last resort, where identity has defaults
		ic.Identify = []identity.Source{{Kind: identity.KindNetwork}}
	}
	return ic, errors.Join(problems...)
}

func (k *compiled) sourceOf(s *config.Source, p *parts) (identity.Source, error) {
	switch {
	case s.Header != "":
		return identity.Source{Kind: identity.KindHeader, Header: s.Header, Shared: s.Shared}, nil
	case s.Cookie != "":
		return identity.Source{Kind: identity.KindCookie, Cookie: s.Cookie, Shared: s.Shared}, nil
	case s.Basic != nil:
		return identity.Source{Kind: identity.KindBasic, Shared: s.Shared}, nil
	case s.MTLS != nil:
		return identity.Source{Kind: identity.KindMTLS, Shared: s.Shared}, nil
	case s.Network != nil:
		return identity.Source{Kind: identity.KindNetwork, IPv4: s.Network.IPv4, IPv6: s.Network.IPv6}, nil
	}
	jwks, err := k.keySet(s.JWT.JWKSURL, p)
	if err != nil {
		return identity.Source{}, err
	}
	verifier, err := jwtidentity.New(jwtidentity.Config{Keys: jwks, Issuer: s.JWT.Issuer, Audience: s.JWT.Audience, Claim: s.JWT.Claim})
	if err != nil {
		return identity.Source{}, err
	}
	return identity.Source{Kind: identity.KindJWT, Verifier: verifier, Issuer: s.JWT.Issuer, Shared: s.Shared}, nil
}

// keySet returns the keys that are published at u: those of the configuration
// before, where it had them.
func (k *compiled) keySet(u *url.URL, p *parts) (*jwtidentity.Keys, error) {
	jwks := p.jwks[u.String()]
	if jwks == nil {
		var err error
		jwks, err = jwtidentity.NewKeys(jwtidentity.KeysConfig{
			URL: u.String(),
			Fetched: func(n int, err error) {
				if err != nil {
					p.log.Warn("jwks: the keys of before stay", "url", u.Redacted(), "error", err)
				} else {
					p.log.Debug("jwks fetched", "url", u.Redacted(), "keys", n)
				}
			},
		})
		if err != nil {
			return nil, err
		}
	}
	k.jwks[u.String()] = jwks
	return jwks, nil
}

func (k *compiled) proxyOf(u *config.Upstream, p *parts) proxy.Config {
	failures := newUpstreamLog(p.log, u.URLs)
	pc := proxy.Config{
		Upstreams: u.URLs, Timeout: u.Timeout, MaxConnections: u.MaxConnections,
		SlowStart: max(u.SlowStart, 1), // none, where the proxy reads 0 as its default
		Keep:      p.proxy,
		Trace:     traceUpstreams(p.log),
		Forward:   func(in *http.Request, out http.Header) { k.gate.WriteForwarded(in, out) },
		Fail: func(w http.ResponseWriter, r *http.Request, reason comporta.Reason, err error) {
			failures.writeAt(time.Now(), r, reason, err)
			overload.Refuse(w, r, &overload.Refusal{Reason: reason, Wait: waitOf(err)})
		},
	}
	if b := &u.Breaker; b.On() {
		pc.Breaker = &breaker.Config{Window: b.Window, Minimum: b.Minimum, Failures: b.Failures, Open: b.Open}
	}
	if h := &u.Health; h.On() {
		pc.Health = &proxy.Health{Path: h.Path, Interval: h.Interval, Timeout: h.Timeout, Healthy: h.Healthy, Unhealthy: h.Unhealthy}
	}
	if r := &u.Retries; r.On() {
		pc.Retries = &proxy.Retries{Budget: r.Budget, Burst: r.Burst}
	}
	if tel := p.telemetry; tel != nil {
		pc.Observe = func(r proxy.Report) { tel.Upstream(r.Upstream, r.Result, r.Status, r.Latency, r.Moved) }
	}
	return pc
}

// telemetryOf says what is told; access gets the lines of the access log.
func telemetryOf(c *config.Config, access io.Writer) telemetry.Config {
	t := telemetry.Config{TopClients: c.Telemetry.TopClients, Sample: c.AccessLog.Sample}
	if t.TopClients == 0 {
		t.TopClients = -1 // none, where telemetry reads 0 as its default
	}
	if t.Sample == 0 {
		t.Sample = math.SmallestNonzeroFloat64 // likewise: no admitted request
	}
	if c.AccessLog.Format == "json" {
		t.AccessLog = slog.New(slog.NewJSONHandler(access, nil))
	}
	return t
}
