package main

import (
	"errors"
	"fmt"
	"strings"
)

// reload reads the configuration again, compiles a new gate over the same state,
// binds what is new, and swaps. When anything fails the old one goes on.
func (a *app) reload() error {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	if a.draining {
		return errDraining
	}
	err := a.exchange()
	a.parts.telemetry.Reloaded(err == nil)
	return err
}

func (a *app) exchange() error {
	c, warnings, err := a.load()
	if err != nil {
		return err
	}
	old := a.current.Load()
	if fixed := needsRestart(old.config, c); len(fixed) > 0 {
		return fmt.Errorf("comporta: nothing was changed, since these keys take effect at a restart only: %s", strings.Join(fixed, ", "))
	}
	// A gate that is compiled over the state in use moves what is in use: the
	// table, the bounds of what is learned. So all that can fail comes first.
	if old.policy != nil {
		a.parts.published = old.policy.Version()
	}
	if err := tryCompile(c, a.parts.published); err != nil {
		return err
	}
	next, err := a.listeners.prepare(c)
	if err != nil {
		return err
	}
	k, err := compile(c, &a.parts)
	if err != nil {
		return errors.Join(err, next.abort())
	}
	a.warn(warnings)
	a.put(k)
	next.commit()
	a.fetchers.change(k.jwks)
	a.checker.change(k.proxy)
	a.parts.keys.run()
	// Requests of the old gate go on with the old proxy; only the idle connections
	// are closed that the new one has no use for.
	old.proxy.Close()
	if routes, changed := keysAnew(old.config, c); len(routes) > 0 {
		a.log.Warn("idempotency keys of these routes are new from now on: what was done is done again when it is repeated", "routes", routes, "changed", changed)
	}
	if routes := keysDropped(old.config, c); len(routes) > 0 {
		a.log.Warn("idempotency keys of these routes are not kept any more: what was done, or still runs, is done again when it is repeated", "routes", routes)
	}
	a.log.Info("reloaded", "listen", a.listeners.addresses(), "upstreams", len(c.Upstream.URLs))
	return nil
}

// tryReload reloads for somebody who does not wait for the answer.
func (a *app) tryReload(why string) {
	if err := a.reload(); err != nil {
		a.log.Error("reload failed, the old configuration goes on", "why", why, "error", err.Error())
	}
}
