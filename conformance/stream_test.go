package conformance

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// echo is a service that returns each message of a WebSocket.
func echo(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, &websocket.AcceptOptions{
			Subprotocols: []string{"echo"}, CompressionMode: websocket.CompressionContextTakeover,
		})
		if err != nil {
			return // it has answered
		}
		defer c.CloseNow()
		c.SetReadLimit(4 << 20)
		for {
			kind, text, err := c.Read(r.Context())
			if err != nil {
				return
			}
			if err := c.Write(r.Context(), kind, text); err != nil {
				return
			}
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestWebSocket(t *testing.T) {
	g := serve(t, echo(t), "admission: {capacity: 8}\n")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for _, mode := range []websocket.CompressionMode{websocket.CompressionDisabled, websocket.CompressionContextTakeover} {
		c, res, err := websocket.Dial(ctx, "ws://"+g.addr+"/echo", &websocket.DialOptions{Subprotocols: []string{"echo"}, CompressionMode: mode})
		if err != nil {
			t.Fatal(err)
		}
		if c.Subprotocol() != "echo" || res.Header.Get("Comporta-Decision") != "" {
			t.Errorf("protocol %q, header %v", c.Subprotocol(), res.Header)
		}
		c.SetReadLimit(4 << 20)
		for _, text := range []string{"", "a", strings.Repeat("many bytes ", 200_000), "\x00\xff"} {
			if err := c.Write(ctx, websocket.MessageBinary, []byte(text)); err != nil {
				t.Fatal(err)
			}
			if kind, got, err := c.Read(ctx); err != nil || kind != websocket.MessageBinary || string(got) != text {
				t.Fatalf("%d bytes back of %d, %v, %v", len(got), len(text), kind, err)
			}
		}
		reading := c.CloseRead(ctx)
		if err := c.Ping(ctx); err != nil {
			t.Error(err)
		}
		if err := c.Close(websocket.StatusNormalClosure, "enough"); err != nil {
			t.Error(err)
		}
		<-reading.Done()
	}
}

// What one side says last arrives at the other, with its code.
func TestWebSocketClose(t *testing.T) {
	codes := make(chan websocket.StatusCode, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		if r.URL.Path == "/server" {
			_ = c.Close(websocket.StatusPolicyViolation, "not like this")
			return
		}
		_, _, err = c.Read(r.Context())
		codes <- websocket.CloseStatus(err)
	}))
	defer s.Close()
	g := serve(t, s.URL, "admission: {capacity: 8}\n")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	dial := func(path string) *websocket.Conn {
		c, _, err := websocket.Dial(ctx, "ws://"+g.addr+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	_, _, err := dial("/server").Read(ctx)
	var closed websocket.CloseError
	if !errors.As(err, &closed) || closed.Code != websocket.StatusPolicyViolation || closed.Reason != "not like this" {
		t.Errorf("the server's close: %v", err)
	}
	if err := dial("/client").Close(websocket.StatusGoingAway, "bye"); err != nil {
		t.Error(err)
	}
	if got := <-codes; got != websocket.StatusGoingAway {
		t.Errorf("the client's close: %v", got)
	}
	_ = dial("/client").CloseNow()
	if got := <-codes; got != -1 {
		t.Errorf("a client that left without a word: %v", got)
	}
}

// Each event arrives before the next is written, over HTTP/1 and HTTP/2, and the
// service hears at once that its caller has left.
func TestEventStream(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		t.Run(map[bool]string{false: "HTTP/1", true: "HTTP/2"}[h2], func(t *testing.T) { eventStream(t, h2) })
	}
}

func eventStream(t *testing.T, h2 bool) {
	t.Helper()
	next, left := make(chan struct{}), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := 0; ; i++ {
			_, _ = fmt.Fprintf(w, "id: %d\ndata: {}\n\n", i)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-next:
			case <-r.Context().Done():
				close(left)
				return
			}
		}
	}))
	defer s.Close()
	g := serve(t, s.URL, "admission: {capacity: 8}\n")
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP1(!h2)
	transport.Protocols.SetUnencryptedHTTP2(h2)
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+g.addr+"/events", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for i := range 20 {
		for _, want := range []string{fmt.Sprintf("id: %d", i), "data: {}", ""} {
			if !lines.Scan() || lines.Text() != want {
				t.Fatalf("event %d: %q, want %q, %v", i, lines.Text(), want, lines.Err())
			}
		}
		next <- struct{}{}
	}
	start := time.Now()
	cancel()
	select {
	case <-left:
		t.Logf("heard after %v that the caller has left", time.Since(start))
	case <-time.After(5 * time.Second):
		t.Error("after 5 s the service has not heard that its caller has left")
	}
}
