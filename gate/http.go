package gate

import (
	"context"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate/identity"
	"github.com/comporta/comporta/gate/overload"
	"github.com/comporta/comporta/internal/target"
)

// Wrap puts the gate in front of next: what it refuses never reaches next.
//
// The request that next sees has the forwarding headers of untrusted peers
// removed. The permit is given back before the last byte of the answer leaves,
// so that a client which has its answer also has its place back. An answer that
// ends as a stream, an upgrade or a hijacked connection is counted apart.
func (g *Gate) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		g.Serve(w, req, next)
	})
}

// Serve passes one request through the gate to next: Wrap for a face that swaps
// gates while it serves.
func (g *Gate) Serve(w http.ResponseWriter, req *http.Request, next http.Handler) {
	x := &exchange{ResponseWriter: w, visit: visits.Get().(*visit), gate: g, req: req, length: -1} //nolint:errcheck,forcetypeassert // the pool holds nothing else
	x.start = time.Now()
	defer x.over()
	if fault := x.readHead(); fault != comporta.ReasonNone {
		x.d = g.RejectAt(x.start, &x.r, fault)
		x.refuse()
		return
	}
	if x.body = newBody(x); x.body != nil {
		x.r.Body = x.body
		defer x.body.release()
	}
	x.d = Decision{verdict: &x.verdict}
	if before := g.approach(x.start, &x.r, &x.d); before {
		if policy := g.keys.policyOf(&x.r); policy != nil {
			x.serveKeyed(next, policy)
			return
		}
		x.enter(x.reached())
	}
	x.answer(next)
}

// reached is when the request comes to admission: at once, unless a stage before it
// may have waited for somebody.
func (x *exchange) reached() time.Time {
	if x.d.Limits == nil && x.gate.challenge == nil && (x.body == nil || x.body.reserved == 0) {
		return x.start
	}
	return x.now()
}

// enter takes the request through admission.
func (x *exchange) enter(now time.Time) {
	x.gate.enter(now, &x.r, &x.d)
	if x.d.Action == comporta.ActionWait {
		x.d.Await(x.req.Context())
	}
}

// answer answers by the service or in its place, as was decided.
func (x *exchange) answer(next http.Handler) {
	x.decided()
	if x.d.Action != comporta.ActionAdmit {
		x.refuse()
		return
	}
	x.serve(next)
}

// Refuse answers for whoever reads requests in front of the gate: req never became
// one, for the fault that ref names, or could not be let in. It is counted and
// explained as every refusal.
func (g *Gate) Refuse(w http.ResponseWriter, req *http.Request, ref *overload.Refusal) {
	now := time.Now()
	r := comporta.Request{
		Method: req.Method, Host: hostOnly(req.Host), Header: req.Header, TLS: req.TLS,
		Remote: peer(req.RemoteAddr), ID: requestID(req.Header[comporta.HeaderRequestID]),
	}
	if path, err := target.Canonical(req.URL); err == nil {
		r.Path = path
	}
	if r.ID == "" {
		r.Serial = g.state.ids.next()
	}
	d := g.RejectAt(now, &r, ref.Reason)
	ref.Wait, ref.RequestID = d.Wait, g.state.RequestID(&r)
	g.contract.Write(w, req, ref)
}

func (x *exchange) decided() {
	if decided := x.gate.trace.Decided; decided != nil {
		now := x.now()
		decided(now, &x.r, x.d.Decision, now.Sub(x.start))
	}
}

// readHead fills the head of the transport-free request. What policy reads is
// the canonical path; a target that could be read in two ways is a fault.
func (x *exchange) readHead() (fault comporta.Reason) {
	req, r := x.req, &x.r
	// What the caller has removed on the way is not read either: a credential that
	// the service never sees must not be proven by its answer.
	identity.DropNominated(req.Header)
	r.Method, r.Host, r.Query = req.Method, hostOnly(req.Host), req.URL.RawQuery
	r.Header, r.TLS, r.BodySize = req.Header, req.TLS, req.ContentLength
	r.Remote = peer(req.RemoteAddr)
	x.readHeader(req.Header)
	if r.ID == "" {
		r.Serial = x.gate.state.ids.next()
		if x.gate.nameRequests {
			r.ID = x.gate.state.RequestID(r)
			req.Header[comporta.HeaderRequestID] = []string{r.ID}
		}
	}
	limits := &x.gate.limits
	switch {
	case req.Method == http.MethodConnect:
		return comporta.MethodNotAllowed
	case limits.URI > 0 && len(req.RequestURI) > limits.URI:
		return comporta.URITooLong
	case limits.Body > 0 && req.ContentLength > limits.Body:
		return comporta.BodyTooLarge
	}
	path, err := target.Canonical(req.URL)
	if err != nil {
		return comporta.MalformedRequest
	}
	r.Path = path
	return comporta.ReasonNone
}

// readHeader walks over the header once: what the peer has no right to say goes,
// what names the request or is a signal of the contract is read.
func (x *exchange) readHeader(h http.Header) {
	id := x.gate.identifier
	trusted, signals := id.Trusted(x.r.Remote), x.gate.signals.Reading(&x.r)
	for name, values := range h {
		switch {
		case !id.Innocent(name) && id.Unfit(name, trusted):
			delete(h, name)
		case name == "Content-Type":
			x.r.GRPC = len(values) > 0 && strings.HasPrefix(values[0], "application/grpc")
		case name == comporta.HeaderRequestID:
			x.r.ID = requestID(values)
		default:
			signals.Field(name, values)
		}
	}
}

// hostOnly is the host in lower case without its port.
func hostOnly(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && strings.IndexByte(host[i:], ']') < 0 {
		host = host[:i]
	}
	for i := range len(host) {
		if c := host[i]; c >= 'A' && c <= 'Z' || c >= 0x80 {
			return strings.ToLower(host)
		}
	}
	return host
}

// peer reads the address of net/http's RemoteAddr; zero for anything else.
func peer(remote string) netip.Addr {
	if addr, ok := dotted(remote); ok {
		return addr
	}
	host := remote
	if i := strings.LastIndexByte(remote, ':'); i >= 0 {
		if host = remote[:i]; len(host) > 1 && host[0] == '[' && host[i-1] == ']' {
			host = host[1 : i-1]
		}
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		addr, _ = netip.ParseAddr(remote) // an address without a port; zero if it is none
	}
	return addr
}

// dotted reads an IPv4 address and its port, as net/http writes them, in a quarter
// of the time that netip takes. ok is false for anything else.
func dotted(remote string) (addr netip.Addr, ok bool) {
	var fields [5]uint32 // the last one is the port
	field, digits := 0, 0
	for i := range len(remote) {
		switch d := remote[i] - '0'; {
		case d <= 9 && digits < 5 && (digits == 0 || fields[field] != 0): // no leading zeros
			fields[field] = fields[field]*10 + uint32(d)
			digits++
		case field == 4 || remote[i] != "...:"[field] || digits == 0 || fields[field] > 255:
			return addr, false
		default:
			field, digits = field+1, 0
		}
	}
	addr = netip.AddrFrom4([4]byte{byte(fields[0]), byte(fields[1]), byte(fields[2]), byte(fields[3])})
	return addr, field == 4 && digits > 0
}

// maxRequestID bounds what a caller may name its request: ids are kept.
const maxRequestID = 128

// requestID takes the caller's id if it is short and visible.
func requestID(vs []string) string {
	if len(vs) != 1 || vs[0] == "" || len(vs[0]) > maxRequestID {
		return ""
	}
	for i := range len(vs[0]) {
		if c := vs[0][i]; c <= ' ' || c > '~' {
			return ""
		}
	}
	return vs[0]
}

// WriteForwarded writes the forwarding headers of a request that goes on to a
// service, for a proxy behind the gate. Call it after the removal of hop-by-hop
// fields; out has none of the caller's forwarding headers.
func (g *Gate) WriteForwarded(in *http.Request, out http.Header) {
	remote := peer(in.RemoteAddr)
	trusted := g.identifier.Trusted(remote)
	if trusted { // its chain is continued
		for _, name := range [...]string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded"} {
			if vs := in.Header[name]; len(vs) > 0 {
				out[name] = slices.Clone(vs) // a transport may hold on to out for longer than the request lives
			}
		}
	}
	identity.WriteForwarded(out, identity.Hop{
		Remote: remote, Client: g.identifier.ClientAddr(remote, in.Header), Trusted: trusted, Host: in.Host, TLS: in.TLS != nil,
	})
	g.identifier.KeepCredentials(in.Header, out)
}

// serve runs the service behind the permit. The deferred close also runs when
// next panics: the permit goes back, and the panic goes on untouched.
func (x *exchange) serve(next http.Handler) {
	defer x.close()
	x.prepare()
	if timeout := x.patience(); timeout > 0 {
		ctx, cancel := context.WithDeadlineCause(x.req.Context(), x.start.Add(timeout), errPatience)
		defer cancel()
		x.req = x.req.WithContext(ctx)
	}
	next.ServeHTTP(x, x.req)
	x.returned = true
}

// prepare makes the request ready for the service.
func (x *exchange) prepare() {
	if x.d.ticketed {
		delete(x.req.Header, comporta.HeaderRetryTicket) // ours, and used
	}
	if x.body != nil {
		x.body.admitted()
		if x.body.reserved == 0 {
			x.mind()
		}
		x.req.Body = x.body
	}
}

// patience bounds the service's work: nobody reads what comes later.
func (x *exchange) patience() time.Duration {
	p, timeout := x.r.Patience, x.gate.routes.list[x.r.Route].Timeout
	if p == 0 || timeout > 0 && timeout < p {
		return timeout
	}
	return p
}

// refuse answers in the service's place.
func (x *exchange) refuse() {
	var ticket [200]byte
	ref := overload.Refusal{
		Reason: x.d.Reason, Wait: x.d.Wait, Ticket: x.d.AppendTicket(ticket[:0]),
		Attempts: x.r.Sighting.Attempts, RequestID: x.gate.state.RequestID(&x.r), MinimumVersion: x.d.MinimumVersion,
		Stop: x.d.Stop, Violated: x.d.violated(), Why: x.d.Detail,
	}
	if a := &x.d.answer; x.d.Action == comporta.ActionReplay {
		ref.Status = a.Status
		if a.Whole {
			ref.Answer = &overload.Answer{ContentType: a.Type, Encoding: a.Encoding, Body: a.Body}
		}
	}
	x.d.writeLimits(x.Header())
	x.gate.contract.Write(x.ResponseWriter, x.req, &ref)
}
