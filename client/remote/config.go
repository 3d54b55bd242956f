package remote

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/comporta/comporta"
)

// What the zero values of Config mean: the envelope of package client.
const (
	DefaultMaxAttempts = 4
	DefaultTotal       = 20 * time.Second
	DefaultCap         = 8 * time.Second
	DefaultBurst       = 10
	DefaultPerSuccess  = 0.1
	DefaultPoll        = time.Minute
)

// Bounds of the time between two looks at the document, whatever it says itself:
// it must neither make a fleet of clients hammer its server, nor make them deaf.
const (
	minPoll = 10 * time.Second
	maxPoll = time.Hour
)

// Limits is what applies to a call. Its fields are those of retry.Limits, so that
// one converts to the other.
type Limits struct {
	MaxAttempts int           // attempts, with the first; 1 = no repeats
	Total       time.Duration // time for all attempts and waits
	Floor       time.Duration // added to every wait
	Cap         time.Duration // the ceiling of growing waits
}

// Config says what a client allows by itself, and where it hears more. The zero
// value hears the header Retry-Policy only.
type Config struct {
	// URL is the address of the document: that of the service, and Path. Empty
	// looks at none.
	URL string
	// File keeps the last document over restarts; empty keeps it in memory only.
	// Its folder must exist. Several processes may share a file.
	File string
	// Ceiling is the client's own policy, which nothing that is heard exceeds.
	// Zero fields mean 4 attempts, 20 s in all, no floor and a cap of 8 s.
	Ceiling Limits
	// Burst and PerSuccess are the client's own budget of repeats; 0 means 10 and
	// 0.1.
	Burst      int
	PerSuccess float64
	// Version is that of the program, to be compared with the oldest one that is
	// still served; it is sent along as Client-Version. The zero value is never
	// too old.
	Version comporta.ClientVersion
	// Poll is the time between two looks while the document does not say, 1 s to
	// 1 h; 0 means 1 min. Each one comes a fifth earlier or later, at random.
	Poll time.Duration
	// HTTP fetches the document; nil means a client without redirects. It should
	// not be one with an envelope: a look that fails is not repeated early.
	HTTP *http.Client
	// Rand returns numbers within [0, 1) for the jitter; nil means the standard
	// generator.
	Rand func() float64
	// Trace is told what happens.
	Trace Trace
}

// Trace is a set of hooks; nil ones are not called. They must not block.
type Trace struct {
	// Applied is called for every document that came into force, also by New for
	// one from the file, so before New returns.
	Applied func(version uint64)
	// Heard is called when a Retry-Policy changed what applies.
	Heard func(maxAttempts int, floor, ttl time.Duration)
	// Failed is called when a look brought nothing, or the file cannot be read or
	// written. Whatever was in force stays so.
	Failed func(err error)
}

// New makes a Switch, and puts the document of the file in force if there is a
// readable one. The error joins all problems of c; the state of the file is none.
func New(c Config) (*Switch, error) {
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return nil, err
	}
	s := &Switch{config: c, agent: agent(c.Version)}
	s.now.Store(s.own())
	if c.File != "" {
		s.restore()
	}
	return s, nil
}

func (c Config) withDefaults() Config {
	orDefault(&c.Ceiling.MaxAttempts, DefaultMaxAttempts)
	orDefault(&c.Ceiling.Total, DefaultTotal)
	orDefault(&c.Ceiling.Cap, DefaultCap)
	orDefault(&c.Burst, DefaultBurst)
	orDefault(&c.PerSuccess, DefaultPerSuccess)
	orDefault(&c.Poll, DefaultPoll)
	if c.Rand == nil {
		c.Rand = rand.Float64
	}
	if c.HTTP == nil {
		c.HTTP = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	return c
}

func orDefault[T comparable](v *T, otherwise T) {
	var zero T
	if *v == zero {
		*v = otherwise
	}
}

func (c Config) check() error {
	var problems []error
	bad := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("remote: "+format, args...))
	}
	if c.URL != "" {
		u, err := url.Parse(c.URL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			bad("URL: %q is no absolute address; write one like https://api.example%s", c.URL, Path)
		}
	}
	if c.File != "" {
		if info, err := os.Stat(filepath.Dir(c.File)); err != nil || !info.IsDir() {
			bad("File: the folder of %q is not there; create it, or leave File empty", c.File)
		}
	}
	if c.Ceiling.MaxAttempts < 1 {
		bad("Ceiling.MaxAttempts: %d is below 1; 1 means no repeats", c.Ceiling.MaxAttempts)
	}
	if c.Ceiling.Total < 0 || c.Ceiling.Floor < 0 || c.Ceiling.Cap < 0 {
		bad("Ceiling: a time in %+v is negative; leave it out for the default", c.Ceiling)
	}
	if c.Burst < 0 {
		bad("Burst: %d is negative; 10 allows ten repeats before any success", c.Burst)
	}
	if !(c.PerSuccess > 0 && c.PerSuccess <= 1) { // so written, it catches NaN too
		bad("PerSuccess: %v is not above 0 and up to 1; 0.1 earns one repeat in ten successes", c.PerSuccess)
	}
	if c.Poll < time.Second || c.Poll > maxPoll {
		bad("Poll: %v is not within 1s and %v; 1m looks once a minute", c.Poll, maxPoll)
	}
	return errors.Join(problems...)
}

// agent renders a version as the header Client-Version says it.
func agent(v comporta.ClientVersion) string {
	if v.Name == "" {
		return ""
	}
	s := fmt.Sprintf("%s/%d.%d.%d", v.Name, v.Major, v.Minor, v.Patch)
	if v.Pre != "" {
		s += "-" + v.Pre
	}
	return s
}
