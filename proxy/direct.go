package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/comporta/comporta/bulkhead"
	"github.com/comporta/comporta/proxy/h1"
)

// continueTime is how long an upstream may leave the caller's wish for leave to
// send its body unanswered, before the body is sent all the same (RFC 9110, 10.1.1).
const continueTime = time.Second

// earlyTime is how long an answer is awaited to a request of which the upstream took
// only a part. If there is one, it was on its way before.
const earlyTime = 250 * time.Millisecond

// maxInterim bounds the informational answers to one request.
const maxInterim = 32

var (
	errContinue = errors.New("proxy: the upstream did not say whether to go on")
	errInterim  = errors.New("the answer has too many informational ones before it")
)

// direct is a try over HTTP/1.1 on a connection of our own pool. All of it happens
// in the goroutine of the request; only a body that streams has one of its own.
type direct struct {
	x      *exchange
	place  bulkhead.Permit
	conn   *h1.Conn // nil before there is one, and after it was taken over
	said   *h1.Head
	waits  bool    // for leave to send the body
	upload *upload // nil unless the body streams
	// settled is to be called when the answer's head, or why there is none, is known;
	// nil unless the body streams.
	settled func()
	stop    func() bool // undoes watch; nil before it

	mu    sync.Mutex // guards what follows against interrupt, and against the upload
	ours  bool       // conn is this try's
	since time.Time  // beginning of the wait
	limit time.Duration
	cause error // that ends the wait
	held  bool  // the caller's body is awaited: the clock stands still
	heard bool  // the head of the answer has come: nothing but the caller's leaving ends it
}

func (d *direct) ask(now time.Time) (answer, error) {
	if err := d.connect(&now); err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.ours, d.since, d.limit, d.cause = true, now, d.x.p.config.Timeout, errNoAnswer
	d.held, d.heard = false, false
	d.mu.Unlock()
	d.waits = false
	d.conn.Begin(now, d, d.patience(now))
	err := d.send(now)
	if err == nil || d.conn.Sent() {
		if err != nil { // even a request that broke off may have its answer: it came early
			d.await(err, earlyTime)
		}
		if herr := d.hear(); herr == nil || err == nil {
			err = herr
		}
	}
	if d.settled != nil {
		d.settled()
		d.settled = nil
	}
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.heard = true
	d.mu.Unlock()
	if d.said.Status < 200 && !final(d.said.Status) {
		return nil, fmt.Errorf("%w: %d", errStatus, d.said.Status)
	}
	return d, nil
}

// patience is how long the guard need not be asked.
func (d *direct) patience(now time.Time) time.Duration {
	patience := min(h1.Patience, d.x.p.config.Timeout)
	if deadline, ok := d.x.in.Context().Deadline(); ok {
		patience = min(patience, max(deadline.Sub(now), time.Millisecond))
	}
	return patience
}

// connect waits for a connection. now moves on if that takes time.
func (d *direct) connect(now *time.Time) error {
	ctx, up := d.x.in.Context(), d.x.up
	place, ok := up.places.TryAcquire()
	if !ok {
		var err error
		if place, err = up.places.Acquire(ctx); err != nil {
			return fmt.Errorf("%w: %w", errNoConnection, err)
		}
	}
	d.place = place
	start := *now
	if !ok {
		*now = time.Now()
	}
	if d.conn = up.pool.Kept(*now); d.conn != nil {
		return nil
	}
	ctx, cancel := context.WithDeadlineCause(ctx, start.Add(d.x.p.config.ConnectTimeout), errNoConnection)
	defer cancel()
	conn, err := up.pool.Dial(ctx)
	*now = time.Now()
	if err != nil {
		return err
	}
	d.conn = conn
	return nil
}

// head is a buffer for a request on its way out.
type head struct {
	p []byte
	// put gives it back; made once for each: a closure for each request would be an
	// allocation.
	put func()
}

var heads sync.Pool

func getHead() *head {
	if h, ok := heads.Get().(*head); ok {
		return h
	}
	h := &head{p: make([]byte, 0, 2<<10)}
	h.put = func() {
		if cap(h.p) <= maxKeptHead {
			heads.Put(h)
		}
	}
	return h
}

// maxKeptHead bounds the buffers that are kept.
const maxKeptHead = maxPayload + 16<<10

// send writes the request, or its head and leaves the rest to an upload.
func (d *direct) send(now time.Time) error {
	x := d.x
	writePatience(x.in.Context(), now, x.header)
	r := h1.Request{
		Method: x.in.Method, Path: x.in.URL.EscapedPath(), Query: x.in.URL.RawQuery, Asks: x.in.URL.ForceQuery,
		Host: x.in.Host, Header: x.header,
		Length: x.in.ContentLength, Trailer: x.in.Trailer,
	}
	if r.Host == "" {
		r.Host = x.up.url.Host
	}
	if x.body == nil {
		r.Length = 0
	}
	head := getHead()
	var err error
	if head.p, err = h1.AppendHead(head.p[:0], &r); err != nil {
		head.put()
		return err
	}
	if x.body == nil || x.payload != nil {
		if x.payload != nil {
			head.p = append(head.p, *x.payload...)
		}
		return d.conn.Ask(head.p, head.put)
	}
	d.watch()
	err = d.conn.Send(head.p)
	head.put()
	if err != nil {
		return err
	}
	if d.waits = x.expects(); d.waits {
		d.await(errContinue, continueTime)
	} else {
		d.startUpload()
	}
	return nil
}

// hear reads the head of the answer, and relays what comes before it.
func (d *direct) hear() error {
	bodiless := d.x.in.Method == http.MethodHead
	for interim := 0; ; {
		said, err := d.conn.ReadHead(bodiless)
		switch {
		case err != nil && (!d.waits || !errors.Is(err, errContinue)):
			return err
		case err == nil && !said.Interim():
			d.said = said
			return nil
		}
		if err == nil {
			if interim++; interim > maxInterim {
				return errInterim
			}
			d.x.inform(said.Status, headerOf(said.Fields))
		}
		if d.waits && (err != nil || said.Status == http.StatusContinue) {
			d.waits = false
			d.await(errNoAnswer, d.x.p.config.Timeout)
			d.startUpload()
		}
	}
}

func headerOf(fields []h1.Field) http.Header {
	h := make(http.Header, len(fields))
	for _, f := range fields {
		h[f.Name] = append(h[f.Name], f.Value)
	}
	return h
}

// await begins a bounded wait.
func (d *direct) await(cause error, limit time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cause, d.limit, d.since = cause, limit, time.Now()
}

// awaitCaller implements link.
func (d *direct) awaitCaller(on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.held = on; !on {
		d.since = time.Now()
	}
}

// OverdueAt implements h1.Guard. It is where a wait that is not over at once meets
// the clock and the caller's leaving for the first time.
func (d *direct) OverdueAt(now time.Time) (until time.Time, err error) {
	d.watch()
	if ctx := d.x.in.Context(); ctx.Err() != nil {
		return time.Time{}, context.Cause(ctx)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch until = d.since.Add(d.limit); {
	case d.heard:
		return time.Time{}, nil
	case d.held:
		return now.Add(d.limit), nil
	case !now.Before(until):
		return time.Time{}, d.cause
	}
	return until, nil
}

// watch sees to it that the end of the request's context ends the try.
func (d *direct) watch() {
	if d.stop == nil {
		d.stop = context.AfterFunc(d.x.in.Context(), d.interrupt)
	}
}

func (d *direct) interrupt() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ours {
		d.conn.Interrupt()
	}
}

// reached implements link.
func (d *direct) reached() reach {
	switch {
	case d.conn == nil:
		return reachedNobody
	case !d.conn.Sent():
		return reachedPool
	}
	return reachedService
}

// end implements link.
func (d *direct) end() {
	if d.stop != nil {
		d.stop()
		d.stop = nil
	}
	d.mu.Lock()
	d.ours = false
	d.mu.Unlock()
	if d.upload != nil {
		d.endUpload()
	}
	if d.conn != nil {
		d.conn.Next() // of an answer that is not wanted: if it has come whole, the connection goes on
		d.conn.Release()
		d.conn = nil
	}
	d.place.Release()
}

// What follows makes the try the answer that it has got.

func (d *direct) head() (status int, length int64) { return d.said.Status, d.said.Length }

// Read implements answer.
func (d *direct) Read(p []byte) (int, error) { return d.conn.Read(p) }

func (d *direct) next() []byte { return d.conn.Next() }

func (d *direct) ready() bool { return d.conn.Ready() }

func (d *direct) announced() []string { return d.said.Announced }

// addHeader implements answer. The values of all fields share one allocation.
func (d *direct) addHeader(h http.Header) {
	fields := d.said.Fields
	var names []string // that Connection nominates
	for i := range fields {
		if fields[i].Name == "Connection" {
			names = append(names, nominated([]string{fields[i].Value})...)
		}
	}
	values := make([]string, 0, len(fields))
	for i := range fields {
		f := &fields[i]
		if hopByHop(f.Name) || gatesOwn(f.Name) || names != nil && slices.Contains(names, f.Name) {
			continue
		}
		if had, ok := h[f.Name]; ok {
			if f.Name != "Content-Length" { // said twice it is the same
				h[f.Name] = append(had, f.Value)
			}
			continue
		}
		values = append(values, f.Value)
		h[f.Name] = values[len(values)-1 : len(values) : len(values)]
	}
}

func (d *direct) trailer() http.Header {
	if fields := d.conn.Trailer(); len(fields) > 0 {
		return headerOf(fields)
	}
	return nil
}

func (d *direct) protocol() string { return upgradeOf(headerOf(d.said.Fields)) }

// takeOver implements answer. A connection that is taken over leaves the pool, and
// makes room for another: tunnels are counted by the gate, as streams.
func (d *direct) takeOver() (io.ReadWriteCloser, error) {
	if d.upload != nil {
		d.endUpload() // one that goes on breaks the connection: a tunnel is no body
	}
	raw, ahead := d.conn.Detach()
	d.mu.Lock()
	d.ours = false
	d.mu.Unlock()
	d.conn = nil
	d.place.Release()
	return &taken{Conn: raw, ahead: ahead}, nil
}

// taken is a connection of which some bytes have been read ahead.
type taken struct {
	net.Conn

	ahead []byte
}

// Read returns what was read ahead first.
func (t *taken) Read(p []byte) (int, error) {
	if len(t.ahead) > 0 {
		n := copy(p, t.ahead)
		t.ahead = t.ahead[n:]
		return n, nil
	}
	return t.Conn.Read(p)
}

// CloseWrite ends the outgoing direction where the connection can do so.
func (t *taken) CloseWrite() error {
	if h, ok := t.Conn.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return t.Close()
}
