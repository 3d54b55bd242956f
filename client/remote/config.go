package remote

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/client/retry"
)

// DefaultPoll is the time between two looks while a document does not say.
const DefaultPoll = time.Minute

// Bounds of the time between two looks at the document, whatever it says itself:
// it must neither make a fleet of clients hammer its server, nor make them deaf.
const (
	minPoll = 10 * time.Second
	maxPoll = time.Hour
)

// maxDestinations bounds the hosts whose Retry-Policy is kept; beyond it the one
// that ends first is forgotten.
const maxDestinations = 1024

// Config says where a Switch hears what. The zero value hears the header
// Retry-Policy only.
type Config struct {
	// URL is the address of the document: that of the service, and Path. Empty
	// looks at none.
	URL string
	// Destinations are the hosts whose calls the document speaks of, as they stand
	// in the addresses of the calls (localhost:8080); empty means that of URL.
	Destinations []string
	// File keeps the last document over restarts; empty keeps it in memory only.
	// Its folder must exist. Several processes may share a file.
	File string
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
	// Applied is called for every document that came into force, with its Switch:
	// New calls it too, for a document from the file, before it returns.
	Applied func(s *Switch)
	// Heard is called when a Retry-Policy changed what applies to a destination.
	Heard func(destination string, said retry.Limits, ttl time.Duration)
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
	s.now.Store(&inForce{poll: c.Poll})
	if c.File != "" {
		s.restore()
	}
	return s, nil
}

func (c Config) withDefaults() Config {
	if c.Poll == 0 {
		c.Poll = DefaultPoll
	}
	if u, err := url.Parse(c.URL); err == nil && u.Host != "" && len(c.Destinations) == 0 {
		c.Destinations = []string{u.Host}
	}
	if c.Rand == nil {
		c.Rand = rand.Float64
	}
	if c.HTTP == nil {
		c.HTTP = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	return c
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
	for i, d := range c.Destinations {
		if d == "" || strings.ContainsAny(d, "/ ") {
			bad("Destinations[%d]: %q is no host; write one like api.example or localhost:8080", i, d)
		}
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
