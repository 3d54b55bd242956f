package front

import "time"

// watchAfter is how old a request must be before anybody looks whether its client
// is still there. Most are over by then; a goroutine for each would cost more than
// many of them.
const watchAfter = 25 * time.Millisecond

// watch looks after the client of a request that takes long: it reads what comes,
// which is kept for the next request, until the connection ends or the request does.
type watch struct {
	x     *exchange
	timer *time.Timer
	armed bool
	done  chan struct{}
}

// later begins to watch when the request is old enough. Its body has been read.
func (w *watch) later() {
	w.armed = true
	if w.timer == nil {
		w.done = make(chan struct{}, 1)
		w.timer = time.AfterFunc(watchAfter, w.look)
		return
	}
	w.timer.Reset(watchAfter)
}

// stop returns when nothing reads any more.
func (w *watch) stop() {
	if !w.armed {
		return
	}
	w.armed = false
	if w.timer.Stop() {
		return
	}
	l := w.x.c.link
	l.interrupt()
	<-w.done
	l.resume()
}

func (w *watch) look() {
	defer func() { w.done <- struct{}{} }()
	x := w.x
	l := x.c.link
	l.mu.Lock()
	l.deaf = true
	l.mu.Unlock()
	l.wait(0)
	for x.in.room() > 0 { // a client that sends ahead without end is watched no more
		n, err := l.read(x.in.free())
		x.in.to += n
		if lost(err) {
			x.c.gone = err
			x.ctx.cancel()
		}
		if err != nil {
			return
		}
	}
}
