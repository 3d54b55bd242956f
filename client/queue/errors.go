package queue

import (
	"errors"
	"fmt"
)

// The errors that a caller may want to tell apart.
var (
	// ErrFull: the item does not fit; read a [*FullError] for the numbers.
	ErrFull = errors.New("queue: full")
	// ErrTooLarge: the payload is larger than MaxPayload, or than the whole queue.
	ErrTooLarge = errors.New("queue: payload too large")
	// ErrKey: the key is not 1 to 255 visible ASCII characters.
	ErrKey = errors.New("queue: invalid key")
	// ErrKeyTaken: another item, or a dead letter, has the key.
	ErrKeyTaken = errors.New("queue: key is taken")
	// ErrLocked: another process, or another Queue of this one, has the file.
	ErrLocked = errors.New("queue: in use by another process")
	// ErrNoQueue: the file is something else than a queue, and was left alone.
	ErrNoQueue = errors.New("queue: not a queue file")
	// ErrUnknown: no such item, or it is not the one that is being sent.
	ErrUnknown = errors.New("queue: no such item")
	// ErrRunning: Run was called while it runs.
	ErrRunning = errors.New("queue: already running")
	// ErrClosed: the queue was closed.
	ErrClosed = errors.New("queue: closed")
)

// FullError is an [ErrFull] with its numbers. Dead letters are not in them: they
// make room for new items.
type FullError struct {
	Items, MaxItems int
	Bytes, MaxBytes int64
}

// Error tells what is full.
func (e *FullError) Error() string {
	return fmt.Sprintf("queue: full: %d of %d items, %d of %d bytes", e.Items, e.MaxItems, e.Bytes, e.MaxBytes)
}

// Is makes errors.Is(err, ErrFull) true.
func (e *FullError) Is(target error) bool { return target == ErrFull }
