package front_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/comporta/comporta/front"
)

// A server in front of a handler, with its limits, and its orderly end.
func Example() {
	s, err := front.New(front.Config{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%s %s", r.Method, r.URL.Path)
		}),
		Limits: front.Limits{HeaderTimeout: 5 * time.Second, Idle: 2 * time.Minute, BodyIdle: 30 * time.Second, WriteStall: 30 * time.Second},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()

	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		fmt.Println(err)
		return
	}
	// Two lengths: which of them counts?
	_, _ = io.WriteString(conn, "POST /orders HTTP/1.1\r\nHost: shop\r\nContent-Length: 4\r\nContent-Length: 40\r\n\r\n")
	var version, status string
	_, _ = fmt.Fscan(conn, &version, &status)
	_ = conn.Close()
	fmt.Println(status)

	fmt.Println(s.Shutdown(context.Background()), <-served)
	s.Wait()
	// Output:
	// 400
	// <nil> http: Server closed
}
