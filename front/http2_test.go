package front

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Types and flags of frames (RFC 9113, 6).
const (
	frameHeaders, frameReset, frameSettings, frameGoAway, frameContinuation = 1, 3, 4, 7, 9

	endStream, endHeaders = 1, 4
)

// frame writes a frame.
func frame(b []byte, kind, flags byte, stream uint32, payload string) []byte {
	b = append(b, byte(len(payload)>>16), byte(len(payload)>>8), byte(len(payload)), kind, flags)
	b = binary.BigEndian.AppendUint32(b, stream)
	return append(b, payload...)
}

// requestBlock is GET http://a/ in HPACK, from its static table.
const requestBlock = "\x82\x86\x84\x41\x01a"

// field2 is a field in HPACK, literal and not to be remembered.
func field2(name, value string) string {
	return "\x00" + string([]byte{byte(len(name))}) + name + string([]byte{byte(len(value))}) + value
}

func preface2(c net.Conn) {
	_, _ = c.Write(frame([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frameSettings, 0, 0, ""))
}

// readFrame returns the next frame.
func readFrame(r io.Reader) (kind byte, stream uint32, payload []byte, err error) {
	var h [9]byte
	if _, err = io.ReadFull(r, h[:]); err != nil {
		return 0, 0, nil, err
	}
	payload = make([]byte, int(h[0])<<16|int(h[1])<<8|int(h[2]))
	_, err = io.ReadFull(r, payload)
	return h[3], binary.BigEndian.Uint32(h[5:]) & (1<<31 - 1), payload, err
}

// Streams that are opened and reset at once (CVE-2023-44487) run no more handlers
// than streams are allowed, and hold bounded memory.
func TestFloodOfResets(t *testing.T) {
	var running, most atomic.Int64
	h := open(t, Config{H2C: true, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		n := running.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		<-r.Context().Done()
		time.Sleep(5 * time.Millisecond) // a service that takes a moment to notice
		running.Add(-1)
	})})
	before := heap()
	c := h.dial(t)
	preface2(c)
	goaway := make(chan bool, 1)
	go func() {
		r := bufio.NewReader(c)
		for {
			kind, _, _, err := readFrame(r)
			if err != nil || kind == frameGoAway {
				goaway <- kind == frameGoAway
				return
			}
		}
	}()
	for stream := uint32(1); stream < 200_000; stream += 2 {
		b := frame(nil, frameHeaders, endStream|endHeaders, stream, requestBlock)
		if _, err := c.Write(frame(b, frameReset, 0, stream, "\x00\x00\x00\x08")); err != nil {
			break
		}
	}
	if grown := heap() - before; grown > 32<<20 {
		t.Errorf("%d bytes more", grown)
	}
	_ = c.Close()
	if n := most.Load(); n > maxStreams {
		t.Errorf("%d handlers at once", n)
	}
	t.Logf("at most %d handlers at once; the connection was ended: %t", most.Load(), <-goaway)
}

// A head that never ends (CVE-2023-45288) ends the connection, and its fields are
// not kept.
func TestFloodOfContinuations(t *testing.T) {
	h := open(t, Config{H2C: true, Handler: silent(t)})
	before := heap()
	c := h.dial(t)
	preface2(c)
	go func() { _, _ = io.Copy(io.Discard, c) }()
	_, _ = c.Write(frame(nil, frameHeaders, endStream, 1, requestBlock))
	block := ""
	for len(block) < 16<<10-300 {
		block += field2("x", strings.Repeat("v", 100))
	}
	sent := 0
	for ; sent < 64<<20; sent += len(block) {
		if _, err := c.Write(frame(nil, frameContinuation, 0, 1, block)); err != nil {
			break
		}
	}
	if grown := heap() - before; grown > 16<<20 {
		t.Errorf("%d bytes more", grown)
	}
	if sent >= 64<<20 {
		t.Error("64 MiB of a head were taken")
	}
}

// A host that names two things is as wrong over HTTP/2 as over HTTP/1.
func TestHostInHTTP2(t *testing.T) {
	h := open(t, Config{H2C: true, Handler: silent(t)})
	c := h.dial(t)
	preface2(c)
	_, _ = c.Write(frame(nil, frameHeaders, endStream|endHeaders, 1, "\x82\x86\x84\x41\x03a/b"))
	for r := bufio.NewReader(c); ; {
		kind, stream, payload, err := readFrame(r)
		if err != nil {
			t.Fatal(err)
		}
		if stream == 1 && (kind != frameHeaders || payload[0] != 0x8c) {
			t.Errorf("frame %d %q", kind, payload)
		}
		if stream == 1 {
			return
		}
	}
}

// Fields that concern a connection have no place in HTTP/2 (RFC 9113, 8.2.2).
// net/http answers them with a bare 400 and no reset of the stream; the handler sees
// nothing.
func TestConnectionFieldsInHTTP2(t *testing.T) {
	for _, f := range []string{
		field2("connection", "keep-alive"), field2("transfer-encoding", "chunked"), field2("upgrade", "h2c"),
		field2("keep-alive", "1"), field2("proxy-connection", "x"), field2("te", "gzip"),
	} {
		h := open(t, Config{H2C: true, Handler: silent(t)})
		c := h.dial(t)
		preface2(c)
		_, _ = c.Write(frame(nil, frameHeaders, endStream|endHeaders, 1, requestBlock+f))
		for r := bufio.NewReader(c); ; {
			kind, stream, payload, err := readFrame(r)
			if err != nil {
				t.Fatalf("%q: %v", f, err)
			}
			if stream != 1 {
				continue
			}
			if kind != frameReset && (kind != frameHeaders || payload[0] != 0x8c) { // :status 400 in the static table
				t.Errorf("%q: frame %d %q", f, kind, payload)
			}
			break
		}
	}
}

// cases/proxy.md E 41: the end is said by GOAWAY, what runs then is answered, and what
// crosses with it is not looked at: GOAWAY has named the last stream that was.
func TestCase_Proxy_E41_GoAway(t *testing.T) {
	release, arrived := make(chan struct{}), make(chan struct{})
	h := open(t, Config{H2C: true, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(arrived)
		<-release
	})})
	c := h.dial(t)
	preface2(c)
	_, _ = c.Write(frame(nil, frameHeaders, endStream|endHeaders, 1, requestBlock))
	<-arrived
	done := make(chan error, 1)
	go func() { done <- h.Shutdown(t.Context()) }()
	goaway := false
	for r := bufio.NewReader(c); ; {
		kind, stream, payload, err := readFrame(r)
		if err != nil {
			t.Fatal(err)
		}
		if kind == frameGoAway && !goaway {
			goaway = true
			if last := binary.BigEndian.Uint32(payload); last != 1 {
				t.Errorf("the last stream is %d", last)
			}
			_, _ = c.Write(frame(nil, frameHeaders, endStream|endHeaders, 3, requestBlock)) // a second call would panic
			close(release)
		}
		if kind == frameHeaders && stream == 1 {
			if !goaway || payload[0] != 0x88 { // :status 200
				t.Errorf("%t %q", goaway, payload)
			}
			break
		}
	}
	_ = c.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Whoever begins to speak HTTP/2 when the end has begun is told that nothing was looked
// at, and is not reset.
func TestCase_Proxy_E41_GoAwayToLatecomers(t *testing.T) {
	h := open(t, Config{H2C: true, Handler: silent(t)})
	c := h.dial(t)
	for h.config.Connections.Stats().Open == 0 { // the system's queue is nobody's to answer
		runtime.Gosched()
	}
	done := h.shut(t)
	<-h.http2.closed
	preface2(c)
	_, _ = c.Write(frame(nil, frameHeaders, endStream|endHeaders, 1, requestBlock))
	var kinds []byte
	for r := bufio.NewReader(c); ; {
		kind, _, payload, err := readFrame(r)
		if err != nil {
			if err != io.EOF { //nolint:errorlint // it comes bare
				t.Error(err)
			}
			break
		}
		kinds = append(kinds, kind)
		if kind == frameGoAway && string(payload) != "\x00\x00\x00\x00\x00\x00\x00\x00" {
			t.Errorf("GOAWAY %q", payload)
		}
	}
	if !bytes.Equal(kinds, []byte{frameSettings, frameGoAway}) {
		t.Errorf("frames %v", kinds)
	}
	_ = c.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
