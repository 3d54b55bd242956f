package jwtidentity

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

const (
	defaultRefresh = 15 * time.Minute
	minRefresh     = time.Minute
	fetchTimeout   = 10 * time.Second
	maxBody        = 1 << 20 // bytes of a key set
	maxRedirects   = 3

	// wantedPause is the least time between two fetches that unknown key ids
	// ask for: they are invented as easily as tokens.
	wantedPause = time.Minute
)

// KeysConfig says where an issuer publishes its keys.
type KeysConfig struct {
	// URL of the JWKS document; https, or http on loopback. Required.
	URL string
	// Refresh is the time between two fetches, at least a minute; each is moved
	// by up to a tenth, so that a fleet does not ask in step. 0 means 15 minutes.
	Refresh time.Duration
	// Client fetches; nil means one of its own with a timeout of 10 s. Its
	// Timeout, if 0, is set to 10 s in a copy.
	Client *http.Client
	// Fetched, if set, is told of every fetch: how many keys are usable, or why
	// the old ones stay. It is called from Run and Fetch, one at a time.
	Fetched func(keys int, err error)
}

// Keys holds an issuer's current keys. Use NewKeys. Its methods may be called
// from many goroutines; it may outlive the Verifiers that read it.
type Keys struct {
	config  KeysConfig
	client  *http.Client
	current atomic.Pointer[keySet] // nil before the first success
	wanted  chan struct{}          // one slot: an unknown key id was seen

	fetching sync.Mutex // one fetch at a time; guards digest
	digest   [sha256.Size]byte
}

// NewKeys checks the configuration. It fetches nothing: see Run.
func NewKeys(c KeysConfig) (*Keys, error) {
	var problems []error
	if u, err := url.Parse(c.URL); err != nil || !safeURL(u) {
		problems = append(problems, fmt.Errorf("jwtidentity: URL: %q is no place to fetch keys from; use https://…, or http:// on loopback, without a password", c.URL))
	}
	switch {
	case c.Refresh == 0:
		c.Refresh = defaultRefresh
	case c.Refresh < minRefresh:
		problems = append(problems, fmt.Errorf("jwtidentity: Refresh: %v is too often; use 1m or more, or 0 for %v", c.Refresh, defaultRefresh))
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return &Keys{config: c, client: clientFor(c.Client), wanted: make(chan struct{}, 1)}, nil
}

// safeURL reports whether what comes from u can be believed: TLS, or this machine.
func safeURL(u *url.URL) bool {
	if u.Host == "" || u.User != nil {
		return false
	}
	host := u.Hostname()
	ip := net.ParseIP(host)
	return u.Scheme == "https" || u.Scheme == "http" && (host == "localhost" || ip != nil && ip.IsLoopback())
}

func clientFor(given *http.Client) *http.Client {
	c := http.Client{}
	if given != nil {
		c = *given
	} else if t, ok := http.DefaultTransport.(*http.Transport); ok {
		t = t.Clone()
		t.DisableKeepAlives = true // nothing to keep for a quarter of an hour
		c.Transport = t
	}
	if c.Timeout == 0 {
		c.Timeout = fetchTimeout
	}
	// The rule for the URL holds for where it leads.
	c.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects || !safeURL(r.URL) {
			return fmt.Errorf("jwtidentity: redirected to %s, which is too far or not safe", r.URL.Redacted())
		}
		return nil
	}
	return &c
}

// Ready reports whether there are keys to check tokens with.
func (k *Keys) Ready() bool { return k.current.Load() != nil }

// Run keeps the keys fresh until ctx ends, and returns its cause. It fetches at
// once, then every Refresh; after a failure sooner, from a second doubling up to
// Refresh; and when a token names an unknown key, at most once a minute.
func (k *Keys) Run(ctx context.Context) error {
	failures := 0
	for {
		started := time.Now()
		select {
		case <-k.wanted: // what was asked for before is answered by this fetch
		default:
		}
		if err := k.Fetch(ctx); err != nil {
			failures++
		} else {
			failures = 0
		}
		if !k.rest(ctx, started, pause(failures, k.config.Refresh, rand.Float64())) {
			return context.Cause(ctx)
		}
	}
}

// rest waits until it is time for the next fetch; false means that ctx ended.
func (k *Keys) rest(ctx context.Context, started time.Time, d time.Duration) bool {
	regular := time.NewTimer(d)
	defer regular.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-regular.C:
		return true
	case <-k.wanted:
	}
	soon := time.NewTimer(time.Until(started.Add(wantedPause)))
	defer soon.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-regular.C:
	case <-soon.C:
	}
	return true
}

// pause is the wait after a fetch; random is within [0, 1).
func pause(failures int, refresh time.Duration, random float64) time.Duration {
	if failures == 0 {
		return time.Duration((0.9 + 0.2*random) * float64(refresh))
	}
	d := min(time.Second<<min(failures-1, 20), refresh)
	return time.Duration((0.5 + 0.5*random) * float64(d))
}

// want asks Run for fresh keys.
func (k *Keys) want() {
	select {
	case k.wanted <- struct{}{}:
	default: // asked already
	}
}

// Fetch fetches the keys once. Where it fails, the last good ones stay. Run calls
// it; call it before, to have keys from the first request on.
func (k *Keys) Fetch(ctx context.Context) error {
	k.fetching.Lock()
	defer k.fetching.Unlock()
	n, err := k.fetch(ctx)
	if k.config.Fetched != nil {
		k.config.Fetched(n, err)
	}
	return err
}

func (k *Keys) fetch(ctx context.Context) (int, error) {
	body, err := k.get(ctx)
	if err != nil {
		return 0, fmt.Errorf("jwtidentity: keys: %w", err)
	}
	set, err := parseKeySet(body)
	if err != nil {
		return 0, fmt.Errorf("jwtidentity: keys: %w", err)
	}
	// The same document is the same set: what was verified with it stays verified.
	if digest := sha256.Sum256(body); digest != k.digest || k.current.Load() == nil {
		k.digest = digest
		k.current.Store(set)
	}
	return len(set.keys), nil
}

func (k *Keys) get(ctx context.Context) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, k.config.URL, http.NoBody)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/jwk-set+json, application/json")
	answer, err := k.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }() // read only: nothing can be lost
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", r.URL.Redacted(), answer.Status)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxBody+1))
	switch {
	case err != nil:
		return nil, err
	case len(body) > maxBody:
		return nil, fmt.Errorf("%s sent more than %d bytes", r.URL.Redacted(), maxBody)
	}
	return body, nil
}
