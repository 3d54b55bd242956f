package front

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
)

var kilobyte = make([]byte, 1024)

func answerKilobyte(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h["Content-Type"] = textPlain
	h["Content-Length"] = kilobyteLength
	_, _ = w.Write(kilobyte)
}

var (
	textPlain      = []string{"text/plain"}
	kilobyteLength = []string{"1024"}
)

const question = "GET /api/orders/17?page=2 HTTP/1.1\r\nHost: shop.example.com\r\nUser-Agent: bench/1.0\r\n" +
	"Accept: application/json\r\nAccept-Encoding: gzip\r\nX-Api-Key: 0123456789abcdef\r\n\r\n"

// ask sends one question and reads the answer, with two calls of the system.
func ask(b *testing.B, c net.Conn, r *bufio.Reader) {
	if _, err := io.WriteString(c, question); err != nil {
		b.Fatal(err)
	}
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			b.Fatal(err)
		}
		if len(line) == 2 {
			break
		}
	}
	if _, err := r.Discard(len(kilobyte)); err != nil {
		b.Fatal(err)
	}
}

func load(b *testing.B, addr string) {
	b.ReportAllocs()
	var before, after syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &before)
	b.SetParallelism(32)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			b.Error(err)
			return
		}
		defer c.Close()
		r := bufio.NewReader(c)
		for pb.Next() {
			ask(b, c, r)
		}
	})
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
	cpu := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
	b.ReportMetric(float64(cpu)/float64(b.N), "cpu-ns/op")
}

// The costs of a request on loopback, that of the client included: it is the same
// for both.
func BenchmarkFront(b *testing.B) {
	h := open(b, Config{Handler: http.HandlerFunc(answerKilobyte), Limits: Limits{HeaderTimeout: 5e9, Idle: 120e9, WriteStall: 30e9}})
	load(b, h.addr)
}

func BenchmarkNetHTTP(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(answerKilobyte), ReadHeaderTimeout: 5e9, IdleTimeout: 120e9}
	go func() { _ = s.Serve(l) }()
	defer s.Close()
	load(b, l.Addr().String())
}

// What the front adds to the calls of the system: a connection that has the next
// request ready.
func BenchmarkFrontWithoutSystem(b *testing.B) {
	s, err := New(Config{Handler: http.HandlerFunc(answerKilobyte), Limits: Limits{HeaderTimeout: 5e9, Idle: 120e9, WriteStall: 30e9}})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	newConn(s, &endless{text: question, left: b.N}, "192.0.2.7:4711", place{}).serve()
}

func BenchmarkNetHTTPWithoutSystem(b *testing.B) {
	s := &http.Server{Handler: http.HandlerFunc(answerKilobyte), ReadHeaderTimeout: 5e9, IdleTimeout: 120e9}
	h := &http2{conns: make(chan net.Conn, 1), closed: make(chan struct{})}
	done := make(chan struct{})
	s.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			close(done)
		}
	}
	b.ReportAllocs()
	h.conns <- &endless{text: question, left: b.N}
	go func() { _ = s.Serve(h) }()
	<-done
	_ = s.Close()
}
