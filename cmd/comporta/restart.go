package main

import (
	"reflect"

	"github.com/comporta/comporta/internal/config"
)

// A fixedKey is one that a running process cannot take over: its servers, its
// registry, its log or its store were made with it.
type fixedKey struct {
	key string
	of  func(*config.Config) any // comparable
}

// fixedKeys are those of every gateway; docs/configuration.md lists them.
var fixedKeys = []fixedKey{
	{"admin.listen", func(c *config.Config) any { return c.Admin.Listen }},
	{"admin.token_file", func(c *config.Config) any { return c.Admin.TokenFile }},
	{"admin.probes", func(c *config.Config) any { return c.Admin.Probes }},
	{"admin.pprof", func(c *config.Config) any { return c.Admin.Pprof }},
	{"limits.header", func(c *config.Config) any { return c.Limits.Header }},
	{"limits.header_timeout", func(c *config.Config) any { return c.Limits.HeaderTimeout }},
	{"limits.uri", func(c *config.Config) any { return c.Limits.URI }},
	{"limits.body_min_rate", func(c *config.Config) any { return c.Limits.BodyMinRate }},
	{"limits.idle", func(c *config.Config) any { return c.Limits.Idle }},
	{"access_log.format", func(c *config.Config) any { return c.AccessLog.Format }},
	{"access_log.sample", func(c *config.Config) any { return c.AccessLog.Sample }},
	{"telemetry.top_clients", func(c *config.Config) any { return c.Telemetry.TopClients }},
}

// fixedOnceKept are fixed in a gateway that keeps idempotency keys.
var fixedOnceKept = []fixedKey{
	{"store", func(c *config.Config) any { return c.Store }},
	{"idempotency.lease", func(c *config.Config) any { return c.Idempotency.Lease }},
	{"idempotency.body_limit", func(c *config.Config) any { return c.Idempotency.BodyLimit }},
	{"idempotency.timeout", func(c *config.Config) any { return c.Idempotency.Timeout }},
}

// fixedOfListener are fixed while a listener stays open.
var fixedOfListener = []struct {
	key string
	of  func(*config.Listener) any
}{
	{"h2c", func(l *config.Listener) any { return l.H2C }},
	{"proxy_protocol", func(l *config.Listener) any { return l.ProxyProtocol }},
	{"tls", func(l *config.Listener) any { return l.TLS }},
}

// needsRestart names the changed keys that take effect at a restart only.
func needsRestart(old, c *config.Config) []string {
	var keys []string
	compare := func(fixed []fixedKey) {
		for _, f := range fixed {
			if f.of(old) != f.of(c) {
				keys = append(keys, f.key)
			}
		}
	}
	compare(fixedKeys)
	if old.KeepsKeys() {
		compare(fixedOnceKept)
	}
	was := map[string]*config.Listener{}
	for i := range old.Listen {
		was[old.Listen[i].Addr] = &old.Listen[i]
	}
	for i := range c.Listen {
		l := &c.Listen[i]
		o := was[l.Addr]
		if o == nil {
			continue
		}
		for _, f := range fixedOfListener {
			if !reflect.DeepEqual(f.of(o), f.of(l)) {
				keys = append(keys, "listen "+l.Addr+": "+f.key)
			}
		}
	}
	return keys
}
