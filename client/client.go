package client

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync/atomic"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/client/budget"
	"github.com/comporta/comporta/client/retry"
)

// ErrTooOld ends calls to a destination that said it takes none from this
// version of the client.
var ErrTooOld = errors.New("client: the server takes no calls from this version; update the client")

// Client is the envelope of a program's calls: its budgets, breakers and
// bulkheads are shared by everything that it wraps. Its methods may be called
// from many goroutines.
type Client struct {
	config       Config
	destinations *destinations
	version      atomic.Pointer[value] // what Client-Version says; a new pointer for every SetVersion
	suspects     suspects
}

// New makes a Client. The error joins all problems of c, each with its field and
// a remedy.
func New(c Config) (*Client, error) {
	budgets, err := budget.New(c.Budget)
	if err := errors.Join(c.check(), err); err != nil {
		return nil, err
	}
	c.Policy = c.Policy.WithDefaults()
	if c.Margin == 0 {
		c.Margin = DefaultMargin
	}
	if c.Rand == nil {
		c.Rand = rand.Float64
	}
	client := &Client{config: c, suspects: newSuspects()}
	client.destinations = newDestinations(&client.config, budgets)
	client.version.Store(&value{c.Version})
	return client, nil
}

// SetVersion changes what Client-Version says from now on, for programs that
// update themselves. Destinations that refused the former version are asked
// again.
func (c *Client) SetVersion(version string) error {
	if _, ok := comporta.ParseClientVersion(version); !ok {
		return fmt.Errorf("client: version %q is not name/semver; write it like acme-app/2.4.1", version)
	}
	c.version.Store(&value{version})
	return nil
}

// Budgets returns the budgets of the destinations, to tighten or to watch.
func (c *Client) Budgets() *budget.Budgets { return c.destinations.budgets }

// Transport returns next within the envelope; nil means http.DefaultTransport.
// It keeps the contract of http.RoundTripper: a request is not changed, and its
// body is closed.
func (c *Client) Transport(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		next = http.DefaultTransport
	}
	return &transport{client: c, next: next}
}

// HTTP returns a copy of next whose transport is within the envelope; nil means
// a zero http.Client. The Timeout of next becomes the transport's, and bounds the
// operation with all attempts, hops and the body: in the copy it is 0, because
// net/http would give every request a context of its own, by which no layer above
// that repeats could be noticed.
func (c *Client) HTTP(next *http.Client) *http.Client {
	wrapped := &http.Client{}
	if next != nil {
		*wrapped = *next
	}
	if wrapped.Transport == nil {
		wrapped.Transport = http.DefaultTransport
	}
	wrapped.Transport = &transport{client: c, next: wrapped.Transport, timeout: wrapped.Timeout}
	wrapped.Timeout = 0
	return wrapped
}

// policy is the envelope for a destination and path within the limits of the
// moment.
func (c *Client) policy(destination, path string) *retry.Policy {
	if c.config.Limits == nil {
		return &c.config.Policy
	}
	p := c.config.Policy.Tighten(c.config.Limits(destination, path))
	return &p
}
