package proxy

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/comporta/comporta/proxy/h1"
)

// upload is a body on its way to an upstream that may answer before it has all of
// it. It is the one thing that needs a goroutine: nobody can wait for a caller and
// for an upstream at once. Who started it waits for it in endUpload, where a server
// lets its reads be ended.
type upload struct {
	d    *direct
	conn *h1.Conn
	done chan struct{}
	err  error // why it was not sent whole; to be read after done
}

// uploadSize is how much of a body moves at once, in bytes.
const uploadSize = 32 << 10

var uploads = sync.Pool{New: func() any { b := make([]byte, h1.ChunkRoom+uploadSize+2); return &b }}

// startUpload lets the body flow. It sets settled.
func (d *direct) startUpload() {
	x := d.x
	u := &upload{d: d, conn: d.conn, done: make(chan struct{})}
	d.upload = u
	d.conn.BeginStream()
	d.settled = x.body.attend(x.in.Context(), x.w)
	go func() {
		defer close(u.done)
		if u.err = u.run(); u.err != nil && u.err != errUpstreamBroke { //nolint:errorlint // a bare value of ours
			d.interrupt() // the upstream must not take what it has for the whole
		}
	}()
}

// run sends the body.
func (u *upload) run() error {
	x := u.d.x
	buffer, _ := uploads.Get().(*[]byte) // the pool holds nothing else
	defer uploads.Put(buffer)
	p := *buffer
	chunked, left := x.in.ContentLength < 0, x.in.ContentLength
	for {
		data := p[h1.ChunkRoom : h1.ChunkRoom+uploadSize]
		if !chunked && left < uploadSize {
			data = data[:left+1] // one more byte shows a body that is too long
		}
		n, err := x.body.Read(data)
		if !chunked {
			if left -= int64(n); left < 0 {
				x.body.blame(errTooLong)
				return errTooLong
			}
		}
		if n > 0 && u.pass(p, n, chunked) != nil {
			return errUpstreamBroke
		}
		switch {
		case errors.Is(err, io.EOF) && left > 0:
			x.body.blame(io.ErrUnexpectedEOF)
			return io.ErrUnexpectedEOF
		case errors.Is(err, io.EOF):
			return u.finish(p, chunked)
		case err != nil:
			return err
		}
	}
}

// pass sends n bytes that stand behind the room for the head of a chunk.
func (u *upload) pass(p []byte, n int, chunked bool) error {
	if chunked {
		return u.conn.Stream(h1.Chunk(p, n))
	}
	return u.conn.Stream(p[h1.ChunkRoom : h1.ChunkRoom+n])
}

// finish sends what follows the last byte.
func (u *upload) finish(p []byte, chunked bool) error {
	if !chunked {
		return nil
	}
	last, err := h1.AppendLastChunk(p[:0], u.d.x.in.Trailer)
	if err != nil {
		u.d.x.body.blame(err)
		return err
	}
	if u.conn.Stream(last) != nil {
		return errUpstreamBroke
	}
	return nil
}

// uploadGrace is how long an upload may take to end whose body was read to its end.
const uploadGrace = 50 * time.Millisecond

// endUpload waits for the upload. One that goes on although the exchange is over is
// broken off, and with it the connection.
func (d *direct) endUpload() {
	u := d.upload
	d.upload = nil
	if !d.x.body.unread() {
		ctx, cancel := context.WithTimeout(context.Background(), uploadGrace)
		select {
		case <-u.done:
		case <-ctx.Done():
		}
		cancel()
	}
	select {
	case <-u.done:
	default:
		d.conn.Interrupt()
		if !d.x.body.end(d.x.w) {
			return // it ends when the body's owner closes it, and finds the connection closed
		}
		<-u.done
	}
	if u.err == nil && d.conn != nil {
		d.conn.SentAll()
	}
}
