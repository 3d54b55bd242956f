// Package operation marks a context with the operation that it serves, so that
// of several layers that could repeat it only the outermost does.
package operation

import (
	"context"
	"time"
)

// Key is the key of the mark among a context's values. It is exported to the
// client package, whose contexts answer to it without a context.WithValue.
type Key struct{}

// Mark is what the owner of an operation tells the layers below it. It is not
// changed once it is in a context.
type Mark struct {
	// Owner says who repeats: "client", "retry", or "inbound" for a caller in
	// another process; empty when nobody does, and the mark carries a deadline only.
	Owner string
	// Deadline ends every call made for the operation; zero is none.
	Deadline time.Time
	// Sender is when the sender of an inbound request, in another process, gives
	// up waiting; zero is never, as far as it says. It leaves no room for the way
	// back: see Until.
	Sender time.Time
	// Attempt is the attempt that the owner is at, 0 for the first: what calls
	// made for it declare, since they are as much repeats as it is.
	Attempt int
}

// Of returns the mark of ctx, nil without one.
func Of(ctx context.Context) *Mark {
	mark, _ := ctx.Value(Key{}).(*Mark)
	return mark
}

// Owned reports whether somebody above repeats. nil is nobody.
func (m *Mark) Owned() bool { return m != nil && m.Owner != "" }

// OwnedHere reports whether a layer of this process repeats. nil is nobody.
func (m *Mark) OwnedHere() bool { return m.Owned() && m.Owner != "inbound" }

// DefaultMargin is what a layer keeps of a sender's patience for the way back,
// unless it is told otherwise.
const DefaultMargin = 50 * time.Millisecond

// Until is the end of calls made for the operation by a layer that keeps a margin
// for the way back to the sender; zero is none. nil is no bound.
func (m *Mark) Until(margin time.Duration) time.Time {
	if m == nil {
		return time.Time{}
	}
	if !m.Sender.IsZero() {
		if d := m.Sender.Add(-margin); m.Deadline.IsZero() || d.Before(m.Deadline) {
			return d
		}
	}
	return m.Deadline
}

// With returns ctx with a mark.
func With(ctx context.Context, mark *Mark) context.Context {
	return context.WithValue(ctx, Key{}, mark)
}
