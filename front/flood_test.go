package front

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
)

// heap is what is in use after a collection, stacks included.
func heap() int64 {
	runtime.GC() //nolint:revive // what is garbage does not count
	runtime.GC() //nolint:revive // nor what a pool keeps for one cycle
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// Heads that come in drips hold what has come of them, are cut in time, and keep
// nobody out.
func TestFloodOfSlowHeads(t *testing.T) {
	n := 2000
	if raceEnabled || testing.Short() {
		n = 200
	}
	const limit = 2 * time.Second
	h := open(t, Config{Handler: http.HandlerFunc(answerKilobyte), Limits: Limits{HeaderTimeout: limit}})
	before := heap()
	start := time.Now()
	conns := make([]net.Conn, n)
	for i := range conns {
		conns[i] = h.dial(t)
		_, _ = io.WriteString(conns[i], "GET / HTTP/1.1\r\nHost: a\r\nX: "+strings.Repeat("x", 1000))
	}
	if got := h.say(t, strings.Replace(question, "Host", "Connection: close\r\nHost", 1)); status(got) != "200" {
		t.Errorf("%q", got)
	}
	if each := (heap() - before) / int64(n); each > 24<<10 {
		t.Errorf("each holds %d bytes", each)
	}
	for _, c := range conns {
		b, err := io.ReadAll(c)
		if status(string(b)) != "408" {
			t.Fatalf("%q %v", b, err)
		}
		_ = c.Close()
	}
	if took := time.Since(start); took < limit {
		t.Errorf("cut after %v", took)
	}
}

// Ten thousand idle connections that have been served before hold little: buffers
// and all that a request needs go back while there is none. Two descriptors each
// are needed here, since the clients are ours too.
func TestFloodOfIdleConnections(t *testing.T) {
	n := 10_000
	if raceEnabled || testing.Short() {
		n = 500
	}
	if n = min(n, descriptors()/2-200); n < 100 {
		t.Skip("too few descriptors")
	}
	h := open(t, Config{Handler: http.HandlerFunc(answerKilobyte)})
	r := bufio.NewReader(nil)
	conns := make([]net.Conn, n)
	one := func() net.Conn {
		c, err := net.Dial("tcp", h.addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, question)
		r.Reset(c)
		answer(t, r, "GET")
		return c
	}
	_ = one().Close()
	before := heap()
	for i := range conns {
		conns[i] = one()
	}
	each := (heap() - before) / int64(n)
	t.Logf("%d connections hold %d bytes each, the client's side included", n, each)
	if limit := int64(8 << 10); each > limit && !raceEnabled {
		t.Errorf("each holds %d bytes, more than %d", each, limit)
	}
	if got := h.config.Connections.Stats().Open; got < n {
		t.Errorf("%d are open", got)
	}
	for _, c := range conns {
		_ = c.Close()
	}
}
