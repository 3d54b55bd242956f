package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/comporta/comporta/front"
	"github.com/comporta/comporta/proxy"
)

// roleCommand is the command by which this program becomes one of the processes
// that it measures.
const roleCommand = "serve"

// The roles.
const (
	roleService      = "service"
	roleReverseProxy = "reverseproxy"
	roleFasthttp     = "fasthttp"
	roleBare         = "comporta-proxy"
	roleRefuse       = "refuse"
)

// idle is how many kept connections each proxy may have to the service.
const idle = 256

// serve listens until the process is ended.
func serve(args []string) error {
	flags := flag.NewFlagSet(roleCommand, flag.ContinueOnError)
	listen := flags.String("listen", "", "")
	upstream := flags.String("upstream", "", "")
	answer := flags.String("answer", "", "")
	if len(args) == 0 {
		return errors.New("serve what?")
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	switch role := args[0]; role {
	case roleService:
		return (&fasthttp.Server{Handler: answerOrder, NoDefaultDate: true, NoDefaultServerHeader: true}).ListenAndServe(*listen)
	case roleFasthttp:
		return (&fasthttp.Server{Handler: fasthttpProxy(*upstream), NoDefaultServerHeader: true}).ListenAndServe(*listen)
	case roleReverseProxy:
		return listenHTTP(*listen, reverseProxy(*upstream))
	case roleBare:
		p, err := proxy.New(proxy.Config{Upstreams: []*url.URL{{Scheme: "http", Host: *upstream}}, MaxConnections: idle})
		if err != nil {
			return err
		}
		return listenFront(*listen, p)
	case roleRefuse:
		h, err := refuse(*answer)
		if err != nil {
			return err
		}
		return listenHTTP(*listen, h)
	default:
		return fmt.Errorf("%q is no role", role)
	}
}

func listenHTTP(addr string, h http.Handler) error {
	return (&http.Server{Addr: addr, Handler: h}).ListenAndServe() //nolint:gosec // only wrk calls
}

// listenFront is what the gateway listens with, and its limits.
func listenFront(addr string, h http.Handler) error {
	s, err := front.New(front.Config{Handler: h, Limits: front.Limits{HeaderTimeout: 5 * time.Second, Idle: 2 * time.Minute, WriteStall: 30 * time.Second}})
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", addr)
	if err != nil {
		return err
	}
	return s.Serve(l)
}

// orders is the service's answer, and holdPath the path where it gives none:
// whoever asks there holds a permit of the gateway.
var orders = []byte(`{"order":"` + strings.Repeat("y", 1024-len(`{"order":""}`)) + `"}`)

const holdPath = "/hold"

func answerOrder(c *fasthttp.RequestCtx) {
	if strings.HasPrefix(string(c.Path()), holdPath) {
		select {}
	}
	c.Response.Header.SetContentType("application/json")
	c.Response.SetBodyRaw(orders)
}

// reverseProxy is the standard library's, with enough kept connections and with
// buffers that are used again.
func reverseProxy(upstream string) http.Handler {
	to := &url.URL{Scheme: "http", Host: upstream}
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host
			r.SetXForwarded()
		},
		Transport:  &http.Transport{MaxIdleConns: idle, MaxIdleConnsPerHost: idle, DisableCompression: true},
		BufferPool: &buffers{},
	}
}

// buffers implements httputil.BufferPool.
type buffers struct{ pool sync.Pool }

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[]byte); ok {
		return *p
	}
	return make([]byte, 32<<10)
}

// Put implements httputil.BufferPool.
func (b *buffers) Put(p []byte) { b.pool.Put(&p) }

// fasthttpProxy is what one writes with fasthttp: the request goes on as it was
// parsed, without what concerns the connection.
func fasthttpProxy(upstream string) fasthttp.RequestHandler {
	client := &fasthttp.HostClient{Addr: upstream, MaxConns: idle, NoDefaultUserAgentHeader: true}
	return func(c *fasthttp.RequestCtx) {
		host := string(c.Request.Host())
		c.Request.Header.Del("Connection")
		c.Request.Header.Set("X-Forwarded-For", c.RemoteIP().String())
		c.Request.UseHostHeader = true
		c.Request.Header.SetHost(host)
		if err := client.Do(&c.Request, &c.Response); err != nil {
			c.Error(err.Error(), fasthttp.StatusBadGateway)
			return
		}
		c.Response.Header.Del("Connection")
	}
}

// refusal is an answer of the gateway, to be given by others without any
// decision.
type refusal struct {
	Status int         `json:"status"`
	Header http.Header `json:"header"`
	Body   string      `json:"body"`
}

// refuse gives the answer that a file holds.
func refuse(file string) (http.Handler, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var a refusal
	if err := json.Unmarshal(text, &a); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		maps.Copy(w.Header(), a.Header)
		w.WriteHeader(a.Status)
		_, _ = io.WriteString(w, a.Body) // the caller may be gone
	}), nil
}
