package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate"
	"github.com/comporta/comporta/gate/admission"
	"github.com/comporta/comporta/gate/admission/seek"
	"github.com/comporta/comporta/gate/calendar"
	"github.com/comporta/comporta/gate/identity"
	"github.com/comporta/comporta/gate/identity/jwtidentity"
	"github.com/comporta/comporta/gate/keys"
	"github.com/comporta/comporta/gate/overload"
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
	jwks   []*jwtidentity.Keys // to be run while this one serves
}

// tryCompile finds what is wrong beyond the words of a configuration.
func tryCompile(c *config.Config) error {
	k, err := compile(c, nil, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	k.proxy.Close()
	return nil
}

// compile makes the parts. state is the one before, or nil; tel may be nil.
func compile(c *config.Config, state *gate.State, tel *telemetry.Telemetry, log *slog.Logger) (*compiled, error) {
	k := &compiled{config: c}
	gc := gate.Config{
		Routes: routesOf(c),
		Repeats: gate.Repeats{
			Config:       repeat.Config{Window: c.Repeats.Window, HopelessAfter: c.Repeats.Hopeless.After, BodyLimit: int64(c.Repeats.BodyLimit)},
			Memory:       int(c.Repeats.Memory),
			ShortCircuit: c.Repeats.Hopeless.ShortCircuit,
		},
		Admission:      admissionOf(&c.Admission),
		Slots:          calendar.Config{Mode: calendar.Mode(c.Slots.Mode), Base: c.Slots.Base, Horizon: c.Slots.Horizon, Grace: c.Slots.Grace},
		Contract:       overload.Config{Dialect: c.Contract.Dialect, TypeBase: c.Contract.TypeBase, CORSOrigins: c.Contract.CORS.Origins},
		BufferedBodies: int64(c.Limits.BufferedBodies),
		Limits:         gate.Limits{URI: int(c.Limits.URI), Body: int64(c.Limits.Body), BodyIdle: c.Limits.BodyIdle},
	}
	if c.Repeats.Mode == "any" {
		gc.Repeats.Mode = repeat.ModeAny
	}
	if tel != nil {
		gc.Trace = tel.Trace()
	}
	var problems []error
	if c.Keys.File != "" {
		ring, err := keys.Load(c.Keys.File)
		problems = append(problems, err)
		gc.Keys = ring
	}
	clients, err := k.clientsOf(&c.Clients, log)
	problems = append(problems, err)
	gc.Clients = clients
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	if k.gate, err = gate.New(gc, state); err != nil {
		return nil, err
	}
	k.proxy, err = proxy.New(k.proxyOf(&c.Upstream, tel))
	return k, err
}

func routesOf(c *config.Config) []gate.Route {
	classes := map[string]gate.RouteClass{"api": gate.RouteAPI, "page": gate.RoutePage, "internal": gate.RouteInternal}
	list := make([]gate.Route, len(c.Routes))
	for i, r := range c.Routes {
		list[i] = gate.Route{
			Match: r.Match, Name: r.Name, Class: classes[r.Class], Weight: r.Weight, Share: r.Share,
			Sheddable: r.Sheddable, Public: r.Public, Exempt: r.Exempt, Timeout: r.Timeout,
		}
		if list[i].Name == "" {
			list[i].Name = r.Match
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

func (k *compiled) clientsOf(c *config.Clients, log *slog.Logger) (identity.Config, error) {
	ic := identity.Config{
		TrustedProxies: c.TrustedProxies, Names: c.Names,
		MinimumVersion: c.MinimumVersion.Versions, RequireVersion: c.MinimumVersion.Require,
	}
	var problems []error
	for i := range c.Identify {
		s, err := k.sourceOf(&c.Identify[i], log)
		problems = append(problems, err)
		ic.Identify = append(ic.Identify, s)
	}
	return ic, errors.Join(problems...)
}

func (k *compiled) sourceOf(s *config.Source, log *slog.Logger) (identity.Source, error) {
	switch {
	case s.Header != "":
		return identity.Source{Kind: identity.KindHeader, Header: s.Header, Shared: s.Shared}, nil
	case s.Basic != nil:
		return identity.Source{Kind: identity.KindBasic, Shared: s.Shared}, nil
	case s.MTLS != nil:
		return identity.Source{Kind: identity.KindMTLS, Shared: s.Shared}, nil
	case s.Network != nil:
		return identity.Source{Kind: identity.KindNetwork, IPv4: s.Network.IPv4, IPv6: s.Network.IPv6}, nil
	}
	jwks, err := jwtidentity.NewKeys(jwtidentity.KeysConfig{
		URL: s.JWT.JWKSURL.String(),
		Fetched: func(n int, err error) {
			if err != nil {
				log.Warn("jwks: the keys of before stay", "url", s.JWT.JWKSURL.Redacted(), "error", err)
			} else {
				log.Debug("jwks fetched", "url", s.JWT.JWKSURL.Redacted(), "keys", n)
			}
		},
	})
	if err != nil {
		return identity.Source{}, err
	}
	verifier, err := jwtidentity.New(jwtidentity.Config{Keys: jwks, Issuer: s.JWT.Issuer, Audience: s.JWT.Audience, Claim: s.JWT.Claim})
	if err != nil {
		return identity.Source{}, err
	}
	k.jwks = append(k.jwks, jwks)
	return identity.Source{Kind: identity.KindJWT, Verifier: verifier, Issuer: s.JWT.Issuer, Shared: s.Shared}, nil
}

func (k *compiled) proxyOf(u *config.Upstream, tel *telemetry.Telemetry) proxy.Config {
	pc := proxy.Config{
		Upstreams: u.URLs, Timeout: u.Timeout, MaxConnections: u.MaxConnections,
		Forward: func(in *http.Request, out http.Header) { k.gate.WriteForwarded(in, out) },
		Fail: func(w http.ResponseWriter, r *http.Request, reason comporta.Reason, _ error) {
			overload.Refuse(w, r, &overload.Refusal{Reason: reason})
		},
	}
	if tel != nil {
		pc.Observe = func(r proxy.Report) { tel.Upstream(r.Upstream, r.Result, r.Status, r.Latency, r.Moved) }
	}
	return pc
}

// tlsOf reads the certificate of a listener.
func tlsOf(t *config.TLS) (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	c := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: uint16(t.MinVersion)}
	if t.ClientCAFile == "" {
		return c, nil
	}
	pem, err := os.ReadFile(t.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("tls: client_ca_file: %w", err)
	}
	c.ClientCAs = x509.NewCertPool()
	if !c.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("tls: client_ca_file: %s holds no certificate in PEM", t.ClientCAFile)
	}
	c.ClientAuth = tls.VerifyClientCertIfGiven
	return c, nil
}
