package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"strconv"
	"time"

	"github.com/comporta/comporta/gate"
	"github.com/comporta/comporta/store"
)

// Config is what the listener needs of the program around it.
type Config struct {
	Version string
	Gate    func() *gate.Gate // the current one
	Ready   func() bool
	Reload  func() error // compiles and swaps; the error holds all problems
	Top     func(n int) []Client
	Known   func(name string) bool // whether a client has this readable name; nil: none has one
	// Keys returns the store of idempotency keys; nil, or nil from it: none are kept.
	Keys func() store.Keys
	// Upstreams tells how the upstreams do; nil: there are none.
	Upstreams func() []Upstream
	// Effective writes the effective configuration, secrets redacted.
	Effective func(io.Writer) error
	Metrics   http.Handler
	Pprof     bool         // serve profiles
	Token     string       // empty: for a listener on loopback, which then checks the Host
	Log       *slog.Logger // gets the audit; nil: none
}

// api has a handler for each route.
type api struct{ Config }

// maxBody bounds what a caller may send.
const maxBody = 64 << 10

// Handler serves the whole listener: the probes to everybody, the rest to who is
// let in by the token or, without one, by coming from this machine.
func Handler(c Config) http.Handler {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	a := &api{c}
	guarded := http.NewServeMux()
	for pattern, h := range a.routes() {
		guarded.HandleFunc(pattern, h)
	}
	if c.Pprof {
		for pattern, h := range profiles {
			guarded.HandleFunc(pattern, h)
		}
	}
	all := http.NewServeMux()
	all.Handle("/", guard(c.Token, guarded))
	for _, p := range probes {
		all.Handle("GET "+p, Probes(c.Ready))
	}
	return all
}

// routes are the patterns of the guarded part, each with its handler.
func (a *api) routes() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"GET /{$}":                   a.index,
		"GET /metrics":               a.Metrics.ServeHTTP,
		"POST /-/reload":             a.reload,
		"GET /api/v1/status":         a.status,
		"GET /api/v1/config":         a.effective,
		"GET /api/v1/upstreams":      a.upstreams,
		"GET /api/v1/who":            a.who,
		"GET /api/v1/explain/{id}":   a.explain,
		"GET /api/v1/shed":           a.levers,
		"POST /api/v1/shed":          a.shed,
		"DELETE /api/v1/shed/{id}":   a.unshed,
		"GET /api/v1/keys":           a.keys,
		"GET /api/v1/keys/{name}":    a.key,
		"DELETE /api/v1/keys/{name}": a.release,
		"GET /api/v1/policy":         a.policy,
		"PUT /api/v1/policy":         a.setPolicy,
		"DELETE /api/v1/policy":      a.clearPolicy,
		"GET /api/v1/level":          a.level,
		"PUT /api/v1/level":          a.pinLevel,
		"DELETE /api/v1/level":       a.unpinLevel,
	}
}

// profiles are the handlers of net/http/pprof. The index serves those by name.
var profiles = map[string]http.HandlerFunc{
	"GET /debug/pprof/":        pprof.Index,
	"GET /debug/pprof/cmdline": pprof.Cmdline,
	"GET /debug/pprof/profile": pprof.Profile,
	"GET /debug/pprof/symbol":  pprof.Symbol,
	"POST /debug/pprof/symbol": pprof.Symbol,
	"GET /debug/pprof/trace":   pprof.Trace,
}

// probes need no token, since orchestrators bring none, and tell nothing else.
var probes = [...]string{"/healthz", "/readyz"}

// Probes serves /healthz and /readyz alone, for an address of their own. Both
// answer in JSON: the first 200 as long as the process does, the second 200 while
// ready says so, and 503 else.
func Probes(ready func() bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, Answer{"ok"}) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !ready() {
			reply(w, http.StatusServiceUnavailable, Answer{"draining"})
			return
		}
		reply(w, http.StatusOK, Answer{"ready"})
	})
	return mux
}

const index = `comporta %s, admin listener

GET    /metrics                 for Prometheus
GET    /healthz  /readyz        probes
GET    /api/v1/status           verdict, capacity, traffic of the last ten seconds
GET    /api/v1/config           the effective configuration
GET    /api/v1/upstreams        how the upstreams do, and which are left alone
GET    /api/v1/who?top=20       the clients that ask most
GET    /api/v1/explain/{id}     why a request was refused
GET    /api/v1/shed             levers; POST sets one, DELETE /api/v1/shed/{id} removes it
GET    /api/v1/keys             idempotency keys; /api/v1/keys/{name} shows one, DELETE releases it
GET    /api/v1/policy           the policy on refusals; PUT sets it, DELETE clears it
GET    /api/v1/level            how hard the house is pressed; PUT pins a level, DELETE lets it go
POST   /-/reload                read the configuration again
GET    /debug/pprof/            profiles, with admin.pprof: true
`

func (a *api) index(w http.ResponseWriter, _ *http.Request) {
	plain(w, "text/plain; charset=utf-8")
	_, _ = fmt.Fprintf(w, index, a.Version) // a reader that left
}

func (a *api) status(w http.ResponseWriter, _ *http.Request) {
	s := statusOf(a.Gate(), time.Now())
	s.Version, s.Ready = a.Version, a.Ready()
	reply(w, http.StatusOK, s)
}

func (a *api) upstreams(w http.ResponseWriter, _ *http.Request) {
	list := []Upstream{} // never null
	if a.Upstreams != nil {
		list = append(list, a.Upstreams()...)
	}
	reply(w, http.StatusOK, Upstreams{list})
}

func (a *api) effective(w http.ResponseWriter, _ *http.Request) {
	plain(w, "application/yaml")
	if err := a.Effective(w); err != nil {
		a.Log.Warn("effective configuration", "error", err)
	}
}

func (a *api) who(w http.ResponseWriter, r *http.Request) {
	n := 20
	if v := r.URL.Query().Get("top"); v != "" {
		var err error
		if n, err = strconv.Atoi(v); err != nil || n < 1 || n > 1000 {
			fail(w, http.StatusBadRequest, "top must be a number within 1 and 1000")
			return
		}
	}
	reply(w, http.StatusOK, Who{Clients: append([]Client{}, a.Top(n)...)}) // never null
}

func (a *api) explain(w http.ResponseWriter, r *http.Request) {
	e, ok := a.Gate().State().Explain(r.PathValue("id"))
	if !ok {
		fail(w, http.StatusNotFound, "no refusal with this request id is remembered: only the newest 4,096 are, and none of a request that was let in")
		return
	}
	reply(w, http.StatusOK, e)
}

func (a *api) levers(w http.ResponseWriter, _ *http.Request) {
	levers := a.Gate().State().LeversAt(time.Now())
	if levers == nil {
		levers = []gate.Lever{}
	}
	reply(w, http.StatusOK, Levers{levers})
}

func (a *api) shed(w http.ResponseWriter, r *http.Request) {
	var req ShedRequest
	if !read(w, r, &req) {
		return
	}
	if req.Route != "" && !a.Gate().HasRoute(req.Route) {
		fail(w, http.StatusUnprocessableEntity, a.noRoute(req.Route))
		return
	}
	now := time.Now()
	var l gate.Lever
	err := a.checkCriteria(&req)
	if err == nil {
		l, err = a.Gate().State().ShedAt(now, gate.Lever{
			Route: req.Route, Client: req.Client, Version: req.Version, Percent: req.Percent, Until: now.Add(seconds(req.TTLS)),
		})
	}
	a.audit(r, "shed add", err, "route", req.Route, "client", req.Client, "client_version", req.Version, "percent", req.Percent, "ttl_s", req.TTLS, "id", l.ID)
	if err != nil {
		fail(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	reply(w, http.StatusCreated, l)
}

var errNoLever = errors.New("no lever has this id: it may have expired")

func (a *api) unshed(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.Atoi(r.PathValue("id"))
	if err != nil || !a.Gate().State().UnshedAt(time.Now(), id) {
		err = errNoLever
	}
	a.audit(r, "shed remove", err, "id", r.PathValue("id"))
	if err != nil {
		fail(w, http.StatusNotFound, err.Error())
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (a *api) policy(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, a.policyStatus(time.Now()))
}

func (a *api) policyStatus(now time.Time) PolicyStatus {
	p, ok := a.Gate().State().PolicyAt(now)
	if !ok {
		return PolicyStatus{}
	}
	return PolicyStatus{true, p.MaxAttempts, p.MinWait.Milliseconds(), p.Until, p.HeaderAt(now)}
}

func (a *api) setPolicy(w http.ResponseWriter, r *http.Request) {
	var req PolicyRequest
	if !read(w, r, &req) {
		return
	}
	now := time.Now()
	err := a.Gate().State().SetPolicyAt(now, gate.Policy{
		MaxAttempts: req.Max, MinWait: time.Duration(min(req.MinMs, 1<<40)) * time.Millisecond, Until: now.Add(seconds(req.TTLS)),
	})
	a.audit(r, "policy set", err, "max", req.Max, "min_ms", req.MinMs, "ttl_s", req.TTLS)
	if err != nil {
		fail(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	reply(w, http.StatusOK, a.policyStatus(now))
}

func (a *api) clearPolicy(w http.ResponseWriter, r *http.Request) {
	a.Gate().State().ClearPolicy()
	a.audit(r, "policy clear", nil)
	w.WriteHeader(http.StatusNoContent)
}

// seconds saturates, so that an absurd number is refused as too long and does
// not come round as a short one.
func seconds(n int64) time.Duration { return time.Duration(max(min(n, 1<<33), -1<<33)) * time.Second }

func (a *api) reload(w http.ResponseWriter, r *http.Request) {
	err := a.Reload()
	a.audit(r, "reload", err)
	if err != nil {
		fail(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	reply(w, http.StatusOK, Answer{"reloaded"})
}

// audit writes down a change that was asked for, and what came of it.
func (a *api) audit(r *http.Request, what string, err error, args ...any) {
	who := append([]any{"what", what, "peer", r.RemoteAddr, "user_agent", r.UserAgent()}, operatorOf(r.Header).attributes()...)
	args = append(who, args...)
	if err != nil {
		args = append(args, "error", err.Error())
	}
	a.Log.Info("audit", args...)
}

// read decodes the body; false means that it was refused. What is misspelt is
// refused too: a lever that is not what was meant is worse than none.
func read(w http.ResponseWriter, r *http.Request, into any) bool {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil && !errors.Is(d.Decode(new(struct{})), io.EOF) {
		err = errors.New("more than one JSON value")
	}
	if err != nil {
		fail(w, http.StatusBadRequest, "the body is not what is expected: "+err.Error())
		return false
	}
	return true
}

func fail(w http.ResponseWriter, status int, text string) { reply(w, status, Failure{text}) }

func reply(w http.ResponseWriter, status int, v any) {
	plain(w, "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) //nolint:errchkjson // the bodies of this package are all encodable; a reader may leave
}

// plain sets what every answer has: it is of now, and it is what it says it is.
func plain(w http.ResponseWriter, contentType string) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
}
