package proxy

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// The defaults of Health.
const (
	DefaultHealthInterval       = 5 * time.Second
	DefaultHealthTimeout        = 2 * time.Second
	DefaultHealthy              = 2
	DefaultUnhealthy            = 3
	DefaultSlowStart            = 10 * time.Second
	healthJitter                = 0.1 // of the interval, to either side
	maxHealthBody         int64 = 64 << 10
)

// Health says how upstreams are checked. A check is good if the answer's status is
// within 200 to 399, and comes in time.
type Health struct {
	// Path is asked for with GET: a path and, perhaps, a query. Required.
	Path string
	// Interval lies between two checks of an upstream, give or take a tenth at random.
	// 0 means DefaultHealthInterval.
	Interval time.Duration
	// Timeout bounds a check; 0 means DefaultHealthTimeout.
	Timeout time.Duration
	// Healthy is how many good checks in a row bring an upstream back, Unhealthy how
	// many bad ones send it away. 0 means 2 and 3.
	Healthy, Unhealthy int
}

func (h *Health) withDefaults() {
	if h.Interval == 0 {
		h.Interval = DefaultHealthInterval
	}
	if h.Timeout == 0 {
		h.Timeout = DefaultHealthTimeout
	}
	if h.Healthy == 0 {
		h.Healthy = DefaultHealthy
	}
	if h.Unhealthy == 0 {
		h.Unhealthy = DefaultUnhealthy
	}
}

// problems names what is wrong with h.
func (h *Health) problems(add func(format string, args ...any)) {
	if u, err := url.ParseRequestURI(h.Path); err != nil || !strings.HasPrefix(h.Path, "/") || u.Host != "" {
		add("Health.Path is %q: give the path that tells whether the service can serve, such as /healthz", h.Path)
	}
	if h.Interval < 0 || h.Timeout < 0 {
		add("Health.Interval and Health.Timeout are %v and %v: they must be positive, or 0 for the default", h.Interval, h.Timeout)
	}
	if h.Healthy < 0 || h.Unhealthy < 0 {
		add("Health.Healthy and Health.Unhealthy are %d and %d: they must be positive, or 0 for the default", h.Healthy, h.Unhealthy)
	}
}

// Run checks the upstreams until ctx ends, if Health is configured. Without it, it
// only waits. It is to be run once, by whoever made the Proxy.
func (p *Proxy) Run(ctx context.Context) {
	if p.config.Health == nil {
		<-ctx.Done()
		return
	}
	var all sync.WaitGroup
	for _, up := range p.upstreams {
		all.Go(func() { p.check(ctx, up) })
	}
	all.Wait()
}

// check checks one upstream again and again. Each check has a connection of its own:
// that a new one can be had is a part of what it tells.
func (p *Proxy) check(ctx context.Context, up *upstream) {
	h := p.config.Health
	c := p.config
	c.ConnectTimeout, c.MaxConnections = h.Timeout, 1
	transport := newTransport(up.url, &c)
	transport.DisableKeepAlives = up.url.Scheme != schemeH2C // which needs its connection for the answer
	client := &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	defer transport.CloseIdleConnections()
	// The checks of many upstreams, and of many gateways, spread from the first on.
	wait := time.Duration(rand.Float64() * healthJitter * float64(h.Interval))
	for {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		err := up.checkOnce(ctx, client, h)
		transport.CloseIdleConnections()
		if ctx.Err() != nil {
			return
		}
		now := time.Now()
		if up.vitals.checkedAt(now, err == nil, h) && p.config.Trace.Health != nil {
			p.config.Trace.Health(now, up.url, err)
		}
		wait = time.Duration((1 - healthJitter + 2*healthJitter*rand.Float64()) * float64(h.Interval))
	}
}

func (up *upstream) checkOnce(ctx context.Context, client *http.Client, h *Health) error {
	scheme := up.url.Scheme
	if scheme == schemeH2C {
		scheme = "http"
	}
	ctx, cancel := context.WithTimeout(ctx, h.Timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+up.url.Host+h.Path, http.NoBody)
	if err != nil {
		return err
	}
	r.Header.Set("User-Agent", "comporta-health")
	res, err := client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }() // what is left of it is not wanted
	if res.StatusCode < http.StatusOK || res.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("proxy: %s answers %s", h.Path, res.Status)
	}
	_, err = io.Copy(io.Discard, io.LimitReader(res.Body, maxHealthBody))
	return err
}
