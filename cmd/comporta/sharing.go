package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/comporta/comporta/gate/keys"
	"github.com/comporta/comporta/gate/ratelimit"
	"github.com/comporta/comporta/gate/ratelimit/redislimit"
	"github.com/comporta/comporta/internal/config"
)

// limitStore is the Redis in which gateways count together, and what it was made
// of. A reload that changes none of that keeps the store, with what it was lent
// and what it remembers of keys.
type limitStore struct {
	*redislimit.Store

	made sharing
}

// sharing is all that a store depends on.
type sharing struct {
	config.RedisAddress

	ca, prefix      string
	period, timeout time.Duration
	gateways, keys  int
	secret          [32]byte
}

// sharingOf reads what the configuration and its files say. ring is nil while the
// key file is missing, which is told elsewhere.
func sharingOf(c *config.Redis, ring *keys.Ring) (sharing, error) {
	s := sharing{prefix: c.Prefix, period: c.Period, timeout: c.Timeout, gateways: c.Gateways, keys: c.Keys}
	if ring != nil {
		s.secret = ring.Derive("ratelimit").Keys[0].Secret
	}
	var noAddress, noCA error
	s.RedisAddress, noAddress = c.Address()
	if c.CAFile != "" {
		var pem []byte
		pem, noCA = os.ReadFile(c.CAFile)
		if noCA == nil && !x509.NewCertPool().AppendCertsFromPEM(pem) {
			noCA = fmt.Errorf("redis.ca_file: %s holds no certificate in PEM", c.CAFile)
		}
		s.ca = string(pem)
	}
	return s, errors.Join(noAddress, noCA)
}

// config is the store's, with a log of its comings and goings.
func (s *sharing) config(log *slog.Logger) (redislimit.Config, error) {
	c := redislimit.Config{Prefix: s.prefix, Secret: s.secret[:], Period: s.period, Timeout: s.timeout, Nodes: s.gateways, Keys: s.keys}
	var err error
	if c.Redis, err = redislimit.ParseURL(s.URL); err != nil {
		return c, err
	}
	if s.Password != "" {
		c.Redis.Password = s.Password
	}
	c.Redis.SentinelPassword = s.SentinelPassword
	if s.ca != "" {
		if c.Redis.TLSConfig == nil {
			return c, errors.New("redis.ca_file: the address is not TLS, so no certificate is judged: write rediss://…")
		}
		c.Redis.TLSConfig.RootCAs = x509.NewCertPool()
		c.Redis.TLSConfig.RootCAs.AppendCertsFromPEM([]byte(s.ca))
	}
	at := config.RedisURL(s.URL).String()
	c.Trace = redislimit.Trace{
		Lost: func(_ time.Time, cause error) {
			log.Warn("rate limits are not shared: Redis does not answer, and on_store_failure decides", "redis", at, "error", causeOf(cause))
		},
		Found: func(time.Time) { log.Info("rate limits are shared: Redis answers", "redis", at) },
	}
	return c, nil
}

func causeOf(err error) string {
	if err == nil {
		return "too many calls failed"
	}
	return err.Error()
}

// storeOf returns the store of shared rules: the one of the configuration before
// where nothing changed. A configuration that is only tried gets a stand-in, and
// no connection.
func (p *parts) storeOf(c *config.Config, ring *keys.Ring) (ratelimit.Store, *limitStore, error) {
	s, err := sharingOf(&c.Redis, ring)
	if err != nil {
		return nil, nil, err
	}
	if p.store != nil && p.store.made == s {
		return p.store, p.store, nil
	}
	sc, err := s.config(p.log)
	if err != nil {
		return nil, nil, err
	}
	if !p.connect {
		stand, err := ratelimit.NewTable(0)
		return stand, nil, err
	}
	store, err := redislimit.New(context.Background(), sc)
	if err != nil {
		return nil, nil, err
	}
	made := &limitStore{store, s}
	return made, made, nil
}

const (
	// storeGrace is for how long a store that was replaced still serves the requests
	// that began with it: longer than any of them may stand in the queue.
	storeGrace = 15 * time.Second
	// storeClose bounds giving back what Redis lent.
	storeClose = time.Second
)

// retire closes a store that the configuration names no more, when the requests
// that know it are through, or when the gateway stops.
func (a *app) retire(s *limitStore) {
	a.retired.Go(func() {
		pause(a.requests, storeGrace)
		s.close(a.log)
	})
}

// closeStores gives back what Redis lent to this gateway, and waits for that.
func (a *app) closeStores() {
	a.parts.store.close(a.log)
	a.retired.Wait()
}

func (s *limitStore) close(log *slog.Logger) {
	if s == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeClose)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		log.Warn("rate limits: what Redis lent comes back by itself, within a period", "error", err.Error())
	}
}
