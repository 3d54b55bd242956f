package config

var (
	_ shorthand = (*Breaker)(nil)
	_ shorthand = (*Health)(nil)
	_ shorthand = (*Retries)(nil)
)

// On reports whether anything can open it.
func (b *Breaker) On() bool { return b.Failures > 0 }

// On reports whether there are checks.
func (h *Health) On() bool { return h.Path != "" }

// On reports whether there are retries.
func (r *Retries) On() bool { return r.Budget > 0 }

// The sections may be written as the word off. What turns each on is said by a key
// of its own, so that nothing is on which nobody has thought about.

func (b *Breaker) readShort(text string) *fault {
	b.Failures = 0
	return wantsOff(text, "{window: 10s, minimum: 20, failures: 0.5, open: 5s}, which is the default")
}

func (h *Health) readShort(text string) *fault {
	h.Path = ""
	return wantsOff(text, "{path: /healthz}")
}

func (r *Retries) readShort(text string) *fault {
	r.Budget = 0
	return wantsOff(text, "{budget: 0.1}")
}

func wantsOff(text, otherwise string) *fault {
	if b, isBool := boolOf(text); text == "off" || isBool && !b {
		return nil
	}
	return &fault{show(text) + " is not off", "off, or " + otherwise}
}

func (*Breaker) shortKey() string { return "" }
func (*Health) shortKey() string  { return "" }
func (*Retries) shortKey() string { return "" }

func (b *Breaker) printShort() (string, bool) { return "off", !b.On() }
func (h *Health) printShort() (string, bool)  { return "off", !h.On() }
func (r *Retries) printShort() (string, bool) { return "off", !r.On() }

func (*Breaker) shortSchema() map[string]any { return offSchema() }
func (*Health) shortSchema() map[string]any  { return offSchema() }
func (*Retries) shortSchema() map[string]any { return offSchema() }

func offSchema() map[string]any { return map[string]any{"enum": []any{"off", false}} }

func (*Breaker) shortForm() string { return "off" }
func (*Health) shortForm() string  { return "off" }
func (*Retries) shortForm() string { return "off" }

// checkGuards looks for keys that say something of what is off.
func (l *loader) checkGuards() {
	up := &l.c.Upstream
	for _, s := range []struct {
		path string
		on   bool
		by   string // the key that turns it on
		keys []string
		hint string
	}{
		{"upstream.breaker", up.Breaker.On(), "failures", []string{"window", "minimum", "open"}, "remove it, or say at which share of failures it opens"},
		{"upstream.health", up.Health.On(), "path", []string{"interval", "timeout", "healthy", "unhealthy"}, "say what to ask for: path: /healthz"},
		{"upstream.retries", up.Retries.On(), "budget", []string{"burst"}, "say how many: budget: 0.1"},
	} {
		if s.on || !l.sound(s.path) {
			continue
		}
		for _, key := range s.keys {
			if p := s.path + "." + key; l.given(p) {
				l.wrongf(p, s.hint, "has no effect: without %s.%s there is nothing", s.path, s.by)
			}
		}
	}
	if h := &up.Health; h.On() && l.sound("upstream.health") && h.Timeout > h.Interval {
		l.wrongf("upstream.health.timeout", "lower it, or raise the interval", "a check may take %s, but the next begins after %s", printDuration(h.Timeout), printDuration(h.Interval))
	}
	if up.Health.On() && l.sound("upstream") && len(up.URLs) == 1 {
		l.warnf("upstream.health", "name more addresses in upstream.urls, or see it as a gauge only", "a single address is asked whatever its checks say")
	}
}
