package client

import (
	"context"
	"io"

	"github.com/comporta/comporta/internal/retryafter"
)

// answerBody is a response's body. Its end is the end of the attempt: the
// context is released, and the bulkhead's permit given back.
type answerBody struct {
	attempt *attempt
	inner   io.ReadCloser
	peeked  []byte // read already, not yet given to the caller
}

// peek reads a body of a declared length that fits (see retryafter.Peekable),
// and keeps it for the caller. What could not be read says nothing.
func (b *answerBody) peek(body io.Reader, length int64) []byte {
	size := retryafter.MaxPeek
	if length >= 0 {
		size = int(min(length, int64(size)))
	}
	buffer := make([]byte, size)
	n, err := io.ReadFull(body, buffer)
	b.peeked = buffer[:n]
	if err != nil {
		return nil
	}
	return buffer
}

// Read reads what was peeked, then the rest.
func (b *answerBody) Read(p []byte) (int, error) {
	if len(b.peeked) > 0 {
		n := copy(p, b.peeked)
		b.peeked = b.peeked[n:]
		return n, nil
	}
	n, err := b.inner.Read(p)
	if err != nil {
		b.attempt.end(context.Canceled)
	}
	return n, err
}

// Close closes the body.
func (b *answerBody) Close() error {
	err := b.inner.Close()
	b.attempt.end(context.Canceled)
	return err
}
