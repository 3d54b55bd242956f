package store

import "errors"

// The errors that callers match. Engines wrap them and say what they know.
var (
	ErrNotFound = errors.New("store: no such record")
	// ErrLost: the record is held under another fence, in another state, or gone.
	ErrLost     = errors.New("store: the hold on the record is lost")
	ErrTooLarge = errors.New("store: the record is too large")
	// ErrFull: there is no room for another record; nothing was changed.
	ErrFull   = errors.New("store: no room")
	ErrClosed = errors.New("store: closed")
)

// ErrInvalid says that the arguments break the rules of this package.
var ErrInvalid = errors.New("store: invalid")
