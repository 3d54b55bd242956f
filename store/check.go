package store

import (
	"fmt"
	"time"
)

// What a record may hold at most, in bytes. Whoever fills it has limits of its
// own below these.
const (
	MaxFingerprint = 128
	MaxLabel       = 255 // each part of it
	MaxHeader      = 64 << 10
	MaxBody        = 4 << 20
)

// Bounds of a page of a listing.
const (
	DefaultPage = 100
	MaxPage     = 1000
)

// MaxLease and MaxTTL keep instants within what every engine can write.
const (
	MaxLease = 24 * time.Hour
	MaxTTL   = 10 * 365 * 24 * time.Hour
)

// Check says what is wrong with a claim. Engines call it before anything else.
func (c *Claim) Check() error {
	switch {
	case c.Fence <= 0 || c.Over < 0 || c.Over == c.Fence:
		return fmt.Errorf("%w: fence %d over %d: a fence is above 0 and new", ErrInvalid, c.Fence, c.Over)
	case c.Lease <= 0 || c.Lease > MaxLease:
		return fmt.Errorf("%w: lease %v is not within 0 and %v", ErrInvalid, c.Lease, MaxLease)
	case c.TTL < c.Lease || c.TTL > MaxTTL:
		return fmt.Errorf("%w: ttl %v is not within the lease %v and %v", ErrInvalid, c.TTL, c.Lease, MaxTTL)
	case len(c.Fingerprint) > MaxFingerprint:
		return fmt.Errorf("%w: a fingerprint of %d bytes", ErrTooLarge, len(c.Fingerprint))
	}
	for _, part := range [...]string{c.Label.Client, c.Label.Method, c.Label.Route, c.Label.Key} {
		if len(part) > MaxLabel {
			return fmt.Errorf("%w: a label of %d bytes", ErrTooLarge, len(part))
		}
	}
	return nil
}

// Check says what is wrong with the end of an operation. Engines call it before
// anything else.
func (f *Finish) Check() error {
	switch {
	case f.TTL <= 0 || f.TTL > MaxTTL:
		return fmt.Errorf("%w: ttl %v is not within 0 and %v", ErrInvalid, f.TTL, MaxTTL)
	case len(f.Fingerprint) > MaxFingerprint:
		return fmt.Errorf("%w: a fingerprint of %d bytes", ErrTooLarge, len(f.Fingerprint))
	case len(f.Answer.Header) > MaxHeader || len(f.Answer.Body) > MaxBody:
		return fmt.Errorf("%w: an answer of %d bytes under a header of %d", ErrTooLarge, len(f.Answer.Body), len(f.Answer.Header))
	case f.Answer.Omitted && len(f.Answer.Body) > 0:
		return fmt.Errorf("%w: an answer whose body is omitted has one", ErrInvalid)
	}
	return nil
}

// CheckLease says what is wrong with the lease of a renewal.
func CheckLease(lease time.Duration) error {
	if lease <= 0 || lease > MaxLease {
		return fmt.Errorf("%w: lease %v is not within 0 and %v", ErrInvalid, lease, MaxLease)
	}
	return nil
}

// Page returns the number of records a page of q has.
func (q *Query) Page() int {
	if q.Limit <= 0 {
		return DefaultPage
	}
	return min(q.Limit, MaxPage)
}

// Selects reports whether a record is one that q asks for.
func (q *Query) Selects(r *Record) bool {
	is := func(want, got string) bool { return want == "" || want == got }
	return (q.State == nil || *q.State == r.State) &&
		is(q.Client, r.Label.Client) && is(q.Route, r.Label.Route) && is(q.Key, r.Label.Key)
}
