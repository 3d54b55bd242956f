package repeat

import (
	"errors"
	"fmt"
	"time"

	"github.com/comporta/comporta"
)

// Mode says what makes a repeat.
type Mode uint8

// The modes.
const (
	// ModeOutcome asks what became of the earlier request: a poll is no retry.
	ModeOutcome Mode = iota
	// ModeAny takes everything seen in the window for a retry.
	ModeAny
)

func (m Mode) String() string {
	switch m {
	case ModeOutcome:
		return "outcome"
	case ModeAny:
		return "any"
	}
	return "unknown"
}

// The defaults of a Config.
const (
	DefaultWindow        = time.Minute
	DefaultFailedWindow  = 30 * time.Minute
	DefaultHopelessAfter = 3
	DefaultBodyLimit     = 64 << 10
)

// The limits of a Config.
const (
	MinWindow        = time.Second
	MaxWindow        = time.Hour
	MaxHopelessAfter = maxFails
)

// Config says how a Detector judges. The zero value is the default.
type Config struct {
	// Window is how long a sighting is remembered after the latest thing known
	// of it: from MinWindow to MaxWindow, DefaultWindow if 0.
	Window time.Duration
	// FailedWindow is Window for what failed, was refused, or has no answer yet. An
	// outage of minutes leaves failures that come again when it ends, and those who
	// bring them must not pass for newcomers then. At least Window, at most
	// MaxWindow; DefaultFailedWindow if 0, or Window if that is longer. ModeAny knows
	// one window only.
	FailedWindow time.Duration
	// Mode says what makes a repeat; the zero value is ModeOutcome.
	Mode Mode
	// HopelessAfter is how often in a row the service must have given the same
	// answer, one that another try does not change, before a repeat is hopeless:
	// from 1 to MaxHopelessAfter, DefaultHopelessAfter if 0.
	HopelessAfter int
	// BodyLimit is the largest body, in bytes, that WantsBody asks for;
	// DefaultBodyLimit if 0.
	BodyLimit int64
	// Answers is the short circuit of hopeless repeats; nil switches it off.
	Answers *Answers
}

// Detector judges requests by a Config over a Table. It is immutable; several
// may share one table. Methods may be called from many goroutines, one request
// by one goroutine at a time, and do not allocate but for AnswerAt and KeepAt.
type Detector struct {
	table         *Table
	answers       *Answers
	windowLength  time.Duration
	window        uint64 // the longest, in ticks, rounded down
	settled       uint64 // by so much what is settled is forgotten sooner
	mode          Mode
	hopelessAfter uint64
	bodyLimit     int64
}

// New compiles a configuration over a table. It reports every problem at once.
func New(c Config, t *Table) (*Detector, error) {
	c.Window = orDefault(c.Window, DefaultWindow)
	c.FailedWindow = orDefault(c.FailedWindow, max(DefaultFailedWindow, c.Window))
	c.HopelessAfter = orDefault(c.HopelessAfter, DefaultHopelessAfter)
	c.BodyLimit = orDefault(c.BodyLimit, DefaultBodyLimit)
	if err := c.validate(t); err != nil {
		return nil, err
	}
	if c.Mode == ModeAny {
		c.FailedWindow = c.Window
	}
	longest := uint64(c.FailedWindow / tickLength)
	return &Detector{
		table:         t,
		answers:       c.Answers,
		windowLength:  c.Window,
		window:        longest,
		settled:       longest - uint64(c.Window/tickLength),
		mode:          c.Mode,
		hopelessAfter: uint64(c.HopelessAfter),
		bodyLimit:     c.BodyLimit,
	}, nil
}

func orDefault[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

func (c Config) validate(t *Table) error {
	var problems []error
	if t == nil {
		problems = append(problems, errors.New("repeat: no table; make one with NewTable"))
	}
	if c.Window < MinWindow || c.Window > MaxWindow {
		problems = append(problems, fmt.Errorf("repeat: window: %v; set between %v and %v", c.Window, MinWindow, MaxWindow))
	}
	if c.FailedWindow < c.Window || c.FailedWindow > MaxWindow {
		problems = append(problems, fmt.Errorf("repeat: failed_window: %v; set between window (%v) and %v", c.FailedWindow, c.Window, MaxWindow))
	}
	if c.Mode > ModeAny {
		problems = append(problems, fmt.Errorf("repeat: mode: %d; set %q or %q", c.Mode, ModeOutcome, ModeAny))
	}
	if c.HopelessAfter < 1 || c.HopelessAfter > MaxHopelessAfter {
		problems = append(problems, fmt.Errorf("repeat: hopeless.after: %d; set between 1 and %d", c.HopelessAfter, MaxHopelessAfter))
	}
	if c.BodyLimit < 0 {
		problems = append(problems, fmt.Errorf("repeat: body_limit: %d bytes; set a positive number", c.BodyLimit))
	}
	return errors.Join(problems...)
}

// Prepare names the operation of r, if its name does not depend on the body, and
// has the memory of its lines fetched while the stages between do something else.
// It is optional, and needs r.Client.Key and the head only.
func (d *Detector) Prepare(r *comporta.Request) {
	if name, ok := d.fingerprint(r, 0); ok {
		r.Sighting.Name = name
		d.table.prepare(name)
	}
}

// SeeAt files one sighting of r and writes r.Sighting. Its evidence says what
// tied it to an earlier one; a poll has evidence too, but is no accusation.
//
// digest is the digest of the body, 0 while it is unknown; it does not matter
// when r has no body or names itself by an Idempotency-Key. Without it a request
// with a body is judged by its head alone and filed by nobody: call
// [Detector.FileAt] when the body has been read. ticketed says that r brought a
// valid ticket, which proves that it was refused before.
//
// A request is filed once: SeeAt on a filed one does nothing.
func (d *Detector) SeeAt(now time.Time, r *comporta.Request, digest uint64, ticketed bool) {
	if r.Sighting.Ref != 0 {
		return
	}
	s := comporta.Sighting{Attempts: 1, Name: r.Sighting.Name}
	name, ok := s.Name, true
	if name == 0 {
		if name, ok = d.fingerprint(r, digest); ok {
			d.table.prepare(name)
		}
	}
	if ok {
		seen := d.table.see(name, r.Client.Class.Believed(), r.Route, moment{tickOf(now), d.window, d.settled})
		s.Ref = seen.ref
		s.Attempts = int(seen.after.attempts())
		if s.Kind = d.kind(seen, r.Safe()); s.Kind != comporta.KindOriginal {
			s.Evidence = evidenceOf(r)
		}
	}
	if ticketed {
		demote(&s, comporta.EvidenceTicket)
	}
	if r.Attempt > 0 {
		demote(&s, comporta.EvidenceDeclared)
	}
	r.Sighting = s
}

// FileAt files a request whose body was unknown to SeeAt, now that it has been
// digested, and corrects r.Sighting. If the answer came first, tell it again by
// ResolveAt afterwards.
func (d *Detector) FileAt(now time.Time, r *comporta.Request, digest uint64) {
	d.SeeAt(now, r, digest, r.Sighting.Evidence == comporta.EvidenceTicket)
}

// kind is the table of the package comment.
func (d *Detector) kind(s sight, safe bool) comporta.Kind {
	switch {
	case s.before == 0:
		return comporta.KindOriginal
	case s.after.hopeless(d.hopelessAfter, false):
		return comporta.KindHopeless
	case d.mode == ModeAny:
		return comporta.KindRetry
	case s.before.state() == stateSuccess,
		s.before.state() == statePending && safe,
		s.before.state() == stateAnswered && s.before.code() == codeLeft:
		return comporta.KindPoll
	}
	return comporta.KindRetry
}

// demote makes a sighting a retry at least. What the caller says can make a
// request look more like a repeat, never less.
func demote(s *comporta.Sighting, e comporta.Evidence) {
	if s.Kind.Repeat() {
		s.Evidence = max(s.Evidence, e)
		return
	}
	s.Kind, s.Evidence = comporta.KindRetry, e
}

// ResolveAt tells what became of r: first at the head of the answer, before its
// last byte is flushed, so that a client that asks again at once is judged by
// it; and once more if the answer is then cut off. Refusals of the gate and
// answers from memory are told as comporta.ResultRefused.
//
// It reports whether the request is hopeless from here on: the service has
// given this answer HopelessAfter times in a row, so that the caller should be
// told not to ask again. It does nothing for a request that was not filed, or
// whose slot was needed for another since.
func (d *Detector) ResolveAt(now time.Time, r *comporta.Request, o comporta.Outcome) (hopeless bool) {
	ref := r.Sighting.Ref
	if ref == 0 {
		return false
	}
	at, tag := tickOf(now), refTag(ref)
	switch {
	case o.Result == comporta.ResultSuccess:
		d.table.note(r.Route, tag, at, false)
	case o.Result == comporta.ResultTimeout, o.Result == comporta.ResultUnreachable,
		o.Result == comporta.ResultFailed && o.Status >= 500:
		d.table.note(r.Route, tag, at, true)
	}
	end := endingOf(o, r.Safe())
	w := d.table.resolve(ref, end, at)
	if w == 0 || end.state != stateAnswered {
		return false
	}
	healthy := end.code.fault() && d.table.healthy(r.Route, tag, (at-othersWindow)&tickMask, at)
	return w.hopeless(d.hopelessAfter, healthy)
}
