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

// Remote reports whether the owner is in another process, so that its deadline
// leaves no room for the way back.
func (m *Mark) Remote() bool { return m != nil && (m.Owner == "inbound" || m.Owner == "") }

// With returns ctx with a mark.
func With(ctx context.Context, mark *Mark) context.Context {
	return context.WithValue(ctx, Key{}, mark)
}
