package main

import (
	"reflect"

	"github.com/comporta/comporta/internal/config"
)

// needsRestart names the changed keys that a running process cannot take over:
// what its servers, its registry and its log were made with.
func needsRestart(old, c *config.Config) []string {
	var keys []string
	changed := func(key string, is bool) {
		if is {
			keys = append(keys, key)
		}
	}
	changed("admin.listen", old.Admin.Listen != c.Admin.Listen)
	changed("admin.token_file", old.Admin.TokenFile != c.Admin.TokenFile)
	changed("admin.probes", old.Admin.Probes != c.Admin.Probes)
	changed("limits.header", old.Limits.Header != c.Limits.Header)
	changed("limits.header_timeout", old.Limits.HeaderTimeout != c.Limits.HeaderTimeout)
	changed("limits.uri", old.Limits.URI != c.Limits.URI)
	changed("limits.body_min_rate", old.Limits.BodyMinRate != c.Limits.BodyMinRate)
	changed("limits.idle", old.Limits.Idle != c.Limits.Idle)
	changed("access_log.format", old.AccessLog.Format != c.AccessLog.Format)
	changed("access_log.sample", old.AccessLog.Sample != c.AccessLog.Sample)
	changed("telemetry.top_clients", old.Telemetry.TopClients != c.Telemetry.TopClients)
	if old.KeepsKeys() {
		changed("store", old.Store != c.Store)
		changed("idempotency.lease", old.Idempotency.Lease != c.Idempotency.Lease)
		changed("idempotency.body_limit", old.Idempotency.BodyLimit != c.Idempotency.BodyLimit)
		changed("idempotency.timeout", old.Idempotency.Timeout != c.Idempotency.Timeout)
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
		changed("listen "+l.Addr+": h2c", o.H2C != l.H2C)
		changed("listen "+l.Addr+": proxy_protocol", o.ProxyProtocol != l.ProxyProtocol)
		changed("listen "+l.Addr+": tls", !reflect.DeepEqual(o.TLS, l.TLS))
	}
	return keys
}
