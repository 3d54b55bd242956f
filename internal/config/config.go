//nolint:tagalign,revive // the key comes first, and a default is a word of the file, whatever the type
package config

import (
	"net/netip"
	"net/url"
	"time"
)

// Config is the effective configuration. Load is the only way to make one: the
// zero value lacks the defaults.
type Config struct {
	// Where the gateway listens: an address, or a list of addresses and listeners.
	Listen []Listener `key:"listen" default:":8080"`
	// The operator's listener.
	Admin Admin `key:"admin"`
	// What a single request or connection may cost. Here, and only here, 0 means no limit.
	Limits Limits `key:"limits"`
	// How a changed configuration is noticed, besides SIGHUP and POST /-/reload.
	Reload Reload `key:"reload"`
	// The stages of a shutdown. A gateway without connections exits at once; a second signal skips the wait.
	Drain Drain `key:"drain"`
	// One line for each request.
	AccessLog AccessLog `key:"access_log"`
	// The protected service.
	Upstream Upstream `key:"upstream"`
	// What differs from route to route. A request that matches none belongs to the route "other".
	Routes []Route `key:"routes" default:"[]"`
	// Who asks.
	Clients Clients `key:"clients"`
	// How repeats are told from originals.
	Repeats Repeats `key:"repeats"`
	// Who enters when the house is almost full.
	Admission Admission `key:"admission"`
	// The instants at which refused clients may return.
	Slots Slots `key:"slots"`
	// The keys that sign tickets and hash identities.
	Keys Keys `key:"keys"`
	// How much each key may do in how much time. All rules that match a request are asked, and charged together or not at all.
	RateLimits []RateLimit `key:"rate_limits" default:"[]"`
	// Where several gateways count together: the rules with `store: redis`.
	Redis Redis `key:"redis"`
	// Where answers are kept for those who repeat.
	Store Store `key:"store"`
	// The same operation once, whoever repeats it.
	Idempotency Idempotency `key:"idempotency"`
	// How refusals speak.
	Contract Contract `key:"contract"`
	// The document that tells clients how much they may retry.
	RetryPolicy RetryPolicy `key:"retry_policy"`
	// What is measured.
	Telemetry Telemetry `key:"telemetry"`

	origins origins
}

// Listener is one address on which the gateway serves.
type Listener struct {
	// Host and port; an empty host means every address of the machine.
	Addr string `key:"addr" check:"addr"`
	// Serve TLS. Absent: plain text.
	TLS *TLS `key:"tls"`
	// Serve HTTP/2 without TLS too; false on a listener with TLS.
	H2C bool `key:"h2c" default:"true"`
	// Every connection begins with a PROXY protocol header, version 1 or 2, from a peer within clients.trusted_proxies; others are refused.
	ProxyProtocol bool `key:"proxy_protocol" default:"false"`
}

// TLS is the certificate of a listener and what it asks of its clients.
type TLS struct {
	// Certificate chain in PEM.
	CertFile string `key:"cert_file" check:"file"`
	// Its private key in PEM.
	KeyFile string `key:"key_file" check:"file"`
	// Authorities whose client certificates are accepted, in PEM; needed by `identify: [{mtls: {}}]`. Empty: no certificate is asked for.
	ClientCAFile string `key:"client_ca_file" default:"" check:"file"`
	// The oldest version of TLS that is spoken: 1.2 or 1.3.
	MinVersion TLSVersion `key:"min_version" default:"1.2"`
}

// Admin is the operator's listener. It never shares an address with the public ones.
type Admin struct {
	// Address of the page, the metrics and the API. Off loopback it needs a token file.
	Listen string `key:"listen" default:"127.0.0.1:9900" check:"addr"`
	// File that holds the bearer token of everything but the probes.
	TokenFile string `key:"token_file" default:"" check:"file"`
	// A second address for /healthz and /readyz alone, for orchestrators. Empty: none.
	Probes string `key:"probes" default:"" check:"addr"`
	// Serve the profiles of net/http/pprof under /debug/pprof/, for who may reach the rest.
	Pprof bool `key:"pprof" default:"false"`
}

// Limits bound what a request or a connection may cost; 0 is no limit.
type Limits struct {
	// The header of a request, all fields together.
	Header Size `key:"header" default:"32KiB" range:"0..16MiB"`
	// The request target.
	URI Size `key:"uri" default:"8KiB" range:"0..1MiB"`
	// The body of a request.
	Body Size `key:"body" default:"0" range:"0..1TiB"`
	// How long a header may take to arrive.
	HeaderTimeout time.Duration `key:"header_timeout" default:"5s" range:"0..10m"`
	// The longest silence within a body.
	BodyIdle time.Duration `key:"body_idle" default:"30s" range:"0..1h"`
	// What a body must bring on the average, in bytes a second of waiting for it, after a grace of 5s; calls of gRPC are exempt.
	BodyMinRate Size `key:"body_min_rate" default:"0" range:"0..1GiB"`
	// How long a connection may wait for its next request.
	Idle time.Duration `key:"idle" default:"120s" range:"0..24h"`
	// Open connections of all listeners together; beyond that new ones are refused. 0, or more than the system has descriptors for: as many as those allow, less what the service needs.
	Connections int `key:"connections" default:"0" range:"0..10000000"`
	// Open connections of one IPv4 address or IPv6 /64; clients.trusted_proxies are exempt.
	ConnectionsPerNetwork int `key:"connections_per_network" default:"0" range:"0..1000000"`
	// All bodies held in memory to be digested, together.
	BufferedBodies Size `key:"buffered_bodies" default:"64MiB" range:"0..1TiB"`
}

// Reload says how a changed file is noticed.
type Reload struct {
	// Reload when the file changes, as a mounted ConfigMap does.
	Watch bool `key:"watch" default:"false"`
}

// Drain is the course of a shutdown.
type Drain struct {
	// How long /readyz says no before the listeners close: time for a load balancer to look.
	Delay time.Duration `key:"delay" default:"0s" range:"0..1h"`
	// How long running requests may finish by themselves.
	Soft time.Duration `key:"soft" default:"8s" range:"0..1h"`
	// How long cancelled requests may take to leave.
	Hard time.Duration `key:"hard" default:"2s" range:"0..1h"`
}

// AccessLog is the line that each request leaves behind.
type AccessLog struct {
	// json or off.
	Format string `key:"format" default:"json" oneof:"json off"`
	// The fraction of admitted requests that are logged; refusals always are.
	Sample float64 `key:"sample" default:"1" range:"0..1" hint:"0.01 logs one request in a hundred"`
}

// Upstream is the protected service.
type Upstream struct {
	// Its addresses: scheme (http, https, or h2c for HTTP/2 without TLS), host and port. Requests keep their path.
	URLs []*url.URL `key:"urls" default:"[]" check:"upstream"`
	// How long the service may take to begin its answer.
	Timeout time.Duration `key:"timeout" default:"30s" range:"1ms..1h"`
	// Connections to each address.
	MaxConnections int `key:"max_connections" default:"256" range:"1..65536"`
	// Stops the calls to an address that does not answer, and turns them from one that fails to others.
	Breaker Breaker `key:"breaker"`
	// Checks whether each address can serve. When all are out, all are in.
	Health Health `key:"health" default:"off"`
	// How long an address that comes back gets less than its share; 0: not at all.
	SlowStart time.Duration `key:"slow_start" default:"10s" range:"0..1h"`
	// Sends some requests once more, where that can do no harm.
	Retries Retries `key:"retries" default:"off"`
}

// Breaker says when an address is left alone, and for how long.
type Breaker struct {
	// How far back calls count.
	Window time.Duration `key:"window" default:"10s" range:"100ms..1h"`
	// Calls in the window below which nothing is concluded.
	Minimum int `key:"minimum" default:"20" range:"1..10000"`
	// The share of failures at which it opens. 0: never.
	Failures float64 `key:"failures" default:"0.5" range:"0..1" hint:"0.5 opens when half of the calls fail"`
	// The shortest time that it stays open; up to half as much is added at random.
	Open time.Duration `key:"open" default:"5s" range:"10ms..1h"`
}

// Health says how an address is checked.
type Health struct {
	// What is asked for with GET; 200 to 399 is good. Empty: no checks.
	Path string `key:"path" default:"" check:"healthpath"`
	// The time between two checks, give or take a tenth.
	Interval time.Duration `key:"interval" default:"5s" range:"100ms..1h"`
	// How long a check may take.
	Timeout time.Duration `key:"timeout" default:"2s" range:"10ms..1m"`
	// Good checks in a row that bring an address back.
	Healthy int `key:"healthy" default:"2" range:"1..100"`
	// Bad checks in a row that send it away.
	Unhealthy int `key:"unhealthy" default:"3" range:"1..100"`
}

// Retries says how many requests may be sent once more.
type Retries struct {
	// The retries that each request earns, as a fraction. 0: no retries.
	Budget float64 `key:"budget" default:"0" range:"0..1" hint:"0.1 allows one retry for ten requests"`
	// The retries that may be saved up.
	Burst int `key:"burst" default:"10" range:"1..10000"`
}

// Route is what differs for the requests of one pattern.
type Route struct {
	// A pattern of http.ServeMux on the canonical path.
	Match string `key:"match" check:"pattern"`
	// Its name in metrics and levers. Empty: the pattern.
	Name string `key:"name" default:"" check:"name"`
	// api, page (people read it) or internal (the operator's own traffic).
	Class string `key:"class" default:"api" oneof:"api page internal"`
	// Permits that one request takes.
	Weight int `key:"weight" default:"1" range:"1..1000"`
	// The fraction of the capacity that the route may hold.
	Share float64 `key:"share" default:"1" range:"0.001..1" hint:"0.2 lets the route hold a fifth of the capacity"`
	// Yields first when its route is full.
	Sheddable bool `key:"sheddable" default:"false"`
	// Anybody is answered here, so an answer proves no credential.
	Public bool `key:"public" default:"false"`
	// How long the service may take to begin its answer here. 0: upstream.timeout.
	Timeout time.Duration `key:"timeout" default:"0s" range:"0..1h"`
	// Bypasses the gate: for the health path of a load balancer.
	Exempt bool `key:"exempt" default:"false"`
}

// Clients says who asks.
type Clients struct {
	// Networks whose forwarding headers are believed.
	TrustedProxies []netip.Prefix `key:"trusted_proxies" default:"[]"`
	// Where an identity is looked for; the first that is present wins, and the network is the last resort in any case.
	Identify []Source `key:"identify" default:"[{header: X-Api-Key}, {header: Authorization}, {network: {ipv4: 32, ipv6: 64}}]"`
	// Readable names: name → the first 8 to 64 hexadecimal digits of the credential's SHA-256.
	Names map[string]string `key:"names" default:"{}" keys:"name" check:"sha256"`
	// The oldest version of each client program that is served.
	MinimumVersion MinimumVersion `key:"minimum_version"`
}

// Source is one place in which an identity may stand: exactly one of its first
// six fields is set.
type Source struct {
	// A request header, taken whole.
	Header string `key:"header" default:"" check:"header"`
	// The name of a cookie whose value is a secret of one user and stays the same from one request to the next. What else is in Cookie does not count.
	Cookie string `key:"cookie" default:"" check:"cookie"`
	// The user name of HTTP basic authentication.
	Basic *Basic `key:"basic"`
	// A signed token in Authorization: Bearer.
	JWT *JWT `key:"jwt"`
	// The client's certificate.
	MTLS *MTLS `key:"mtls"`
	// The prefix of the client's address; always shared.
	Network *Network `key:"network"`
	// Many people stand behind one such identity.
	Shared bool `key:"shared" default:"false"`
}

// Basic has no settings.
type Basic struct{}

// MTLS has no settings.
type MTLS struct{}

// JWT is how a token is checked.
type JWT struct {
	// Where the issuer publishes its keys.
	JWKSURL *url.URL `key:"jwks_url" check:"jwks"`
	// The `iss` that a token must carry.
	Issuer string `key:"issuer" check:"text"`
	// The `aud` that a token must carry.
	Audience string `key:"audience" check:"text"`
	// The claim that names the client.
	Claim string `key:"claim" default:"sub" check:"text"`
}

// Network is how addresses are grouped, in bits.
type Network struct {
	// Bits of an IPv4 address that make one client.
	IPv4 int `key:"ipv4" default:"32" range:"8..32"`
	// Bits of an IPv6 address that make one client.
	IPv6 int `key:"ipv6" default:"64" range:"16..128"`
}

// MinimumVersion says which client programs are too old.
type MinimumVersion struct {
	// Refuse clients that do not say their version.
	Require bool `key:"require" default:"false"`
	// Client name → its oldest version (semver).
	Versions map[string]string `key:",rest" keys:"client" check:"version"`
}

// Repeats says how repeats are told from originals.
type Repeats struct {
	// How long a request is remembered once it is settled: it succeeded, or another try is in vain.
	Window time.Duration `key:"window" default:"60s" range:"1s..1h"`
	// How long one is remembered that failed or was refused, window at least: as long as outages last and clients then wait.
	FailedWindow time.Duration `key:"failed_window" default:"30m" range:"1s..1h"`
	// Memory of the sightings, fixed.
	Memory Size `key:"memory" default:"32MiB" range:"1MiB..4GiB"`
	// outcome: a repeat of what succeeded is a poll, not a retry. any: every repeat is a retry.
	Mode string `key:"mode" default:"outcome" oneof:"outcome any"`
	// The largest body that is digested to tell requests apart.
	BodyLimit Size `key:"body_limit" default:"64KiB" range:"1KiB..16MiB"`
	// Requests that fail the same way each time.
	Hopeless Hopeless `key:"hopeless"`
}

// Hopeless says what a hopeless repeat is, and what becomes of it.
type Hopeless struct {
	// Equal deterministic failures that make the next one hopeless.
	After int `key:"after" default:"3" range:"1..7"`
	// Answer hopeless repeats from memory.
	ShortCircuit bool `key:"short_circuit" default:"false"`
}

// Admission says who enters when the house is almost full.
type Admission struct {
	// enforce, or observe: decide, count and log, but admit.
	Mode string `key:"mode" default:"enforce" oneof:"enforce observe"`
	// Requests at once that the service sustains, per replica: auto learns it; a number fixes it; {initial, min, max} bounds what is learned.
	Capacity Capacity `key:"capacity" default:"auto"`
	// priority: originals first, whatever is free is used. reserve: a part is kept for originals.
	Policy string `key:"policy" default:"priority" oneof:"priority reserve"`
	// The fraction kept for originals under policy reserve; 0 keeps none.
	Reserve float64 `key:"reserve" default:"0.3" range:"0..0.95" hint:"0.3 keeps 30% of the capacity for originals"`
	// How long an original may wait for a permit; half as long as an answer takes if that is longer, up to 500ms. 0: no queue.
	QueueWait time.Duration `key:"queue_wait" default:"100ms" range:"0..10s"`
	// Streams at once: auto (0 here) is ten times the capacity.
	Streams int `key:"streams" default:"auto" zero:"auto" range:"1..1000000"`
}

// Capacity is the number of requests at once, fixed or learned.
type Capacity struct {
	// Static is the fixed capacity; 0 means that it is learned.
	Static int `key:"-"`
	// Where learning starts.
	Initial int `key:"initial" default:"32" range:"1..1000000"`
	// The least that is ever allowed.
	Min int `key:"min" default:"2" range:"1..1000000"`
	// The most that is ever allowed. In a fleet: the service's hard bound divided by the replicas.
	Max int `key:"max" default:"1000" range:"1..1000000"`
}

// Slots says when refused clients may return.
type Slots struct {
	// calendar: booked instants. spread: by the number of the waiting. hash: by the client's hash.
	Mode string `key:"mode" default:"calendar" oneof:"calendar spread hash"`
	// The shortest wait, up to half of the horizon; 10s unless set when mode is hash.
	Base time.Duration `key:"base" default:"1s" range:"100ms..10m"`
	// The longest wait.
	Horizon time.Duration `key:"horizon" default:"15m" range:"10s..1h"`
	// How late a client may come to its instant; a tenth of the wait if that is longer.
	Grace time.Duration `key:"grace" default:"5s" range:"1s..10m"`
}

// Keys are the secrets that replicas share.
type Keys struct {
	// One key a line, of at least 32 characters; the first signs, all verify. Empty: random, so that tickets end with the process.
	File string `key:"file" default:"" check:"file"`
}

// RateLimit is a rule: how much each key may do in how much time.
type RateLimit struct {
	// Its name in answers, metrics and logs.
	Name string `key:"name" check:"rule"`
	// The requests that it is for: those that meet all that is set. Empty: all requests.
	Match RateMatch `key:"match"`
	// Who shares a bucket: all requests that agree in every part. A part is client, network, subnet, header:NAME, fingerprint, route, method, host, path, class or version, or several of them by | of which the first that a request has counts.
	Key []string `key:"key" default:"[client]" check:"ratekey" single:"true"`
	// What a key regains: a count, a slash and a unit out of s, m, h and d, as in 100/s or 5/10m. Empty: only the quota counts.
	Rate string `key:"rate" default:"" check:"rate"`
	// The units of a full bucket, which a key has at first. 0: the count of the rate.
	Burst int `key:"burst" default:"0" range:"0..1000000000"`
	// The units that one request takes.
	Cost int `key:"cost" default:"1" range:"1..1000000"`
	// Units for each calendar window, beside the rate or in its place.
	Quota *Quota `key:"quota"`
	// What all keys of one address (IPv4) or /64 get together while they are not believed, as a rate. Empty: as much as one key.
	Network string `key:"network" default:"" check:"rate"`
	// What one /24 or /48 gets in all, of callers that are not believed. Empty: 16 times the rate.
	Subnet string `key:"subnet" default:"" check:"rate"`
	// What all keys get together that are neither believed nor known from lately. Empty: no bound while there is room for them.
	Unseen string `key:"unseen" default:"" check:"rate"`
	// Denied requests count too: who goes on at full speed stays out.
	Penalty bool `key:"penalty" default:"false"`
	// Where it is counted. local: in this process. redis: in all gateways together, see redis; a quota is not.
	Store string `key:"store" default:"local" check:"ratestore"`
	// What becomes of its requests while Redis is away: open admits, closed refuses with 503, local counts in this process, one part of redis.gateways of the rule.
	OnStoreFailure string `key:"on_store_failure" default:"local" oneof:"open closed local"`
	// Count what would be denied, and deny nothing.
	Shadow bool `key:"shadow" default:"false"`
}

// RateMatch says which requests a rule is for. Of a list, any entry is enough.
type RateMatch struct {
	// Routes, by name or pattern; other is what matches none.
	Routes []string `key:"route" default:"[]" check:"text" single:"true"`
	// Names in lower case without port; *.example.com is every name below example.com.
	Hosts []string `key:"host" default:"[]" check:"ratehost" single:"true"`
	// A pattern of http.ServeMux on the canonical path, without method and host.
	Path string `key:"path" default:"" check:"ratepath"`
	// Methods, in upper case.
	Methods []string `key:"method" default:"[]" check:"method" single:"true"`
	// Header → its value; one that ends in * is met by all that begin so, an empty one by any. All of them must be there.
	Headers map[string]string `key:"header" default:"{}" keys:"headername"`
	// How far the caller is believed.
	Classes []string `key:"class" default:"[]" oneof:"anonymous proven verified" single:"true"`
}

// Quota is a number of units for each window of the calendar.
type Quota struct {
	// The units of one window.
	Units int `key:"units" range:"1..500000000"`
	// The window.
	Per string `key:"per" oneof:"hour day week month"`
	// Where days begin.
	TimeZone string `key:"time_zone" default:"UTC" check:"zone"`
	// The quota comes back whole at the boundary, as contracts put it; twice as much may pass around it. false: the window before counts for the part of it that is not over.
	Fixed bool `key:"fixed" default:"false"`
}

// Redis is where rate limits are shared, and how.
type Redis struct {
	// Its address: redis://user:password@host:port/database, redis+cluster://host,host or redis+sentinel://host,host/master; rediss in place of redis is TLS. Empty: none.
	URL RedisURL `key:"url" default:"" check:"redis"`
	// A file that holds the address, in place of url.
	URLFile string `key:"url_file" default:"" check:"file"`
	// A file that holds the password, for an address without one.
	PasswordFile string `key:"password_file" default:"" check:"file"`
	// A file that holds the password of the Sentinels themselves, where they ask for one.
	SentinelPasswordFile string `key:"sentinel_password_file" default:"" check:"file"`
	// Authorities by which the server's certificate is judged, in PEM; for rediss. Empty: those of the system.
	CAFile string `key:"ca_file" default:"" check:"file"`
	// Begins the name of every key there. Gateways of one fleet have the same.
	Prefix string `key:"prefix" default:"comporta:rl" check:"redisprefix"`
	// T of the bound: for how long a gateway may spend by itself what Redis lent it, and how often it says that it lives.
	Period time.Duration `key:"period" default:"1s" range:"100ms..1m"`
	// The most that a request waits for Redis.
	Timeout time.Duration `key:"timeout" default:"20ms" range:"1ms..5s" hint:"20ms; a Redis that takes longer is as good as away"`
	// How many keys a gateway remembers something of, at 124 bytes each. Of the others Redis is asked for each request.
	Keys int `key:"keys" default:"262144" range:"1024..16777216"`
	// How many gateways share, at most: assumed until Redis has counted them, and what a rule with on_store_failure local is divided by.
	Gateways int `key:"gateways" default:"1" range:"1..10000"`
}

// Store is where state is kept. It is opened when something is to be kept in it.
type Store struct {
	// sqlite: a file of this gateway's own. postgres or redis: shared by all gateways of a fleet. memory: for trials; everything is lost with the process.
	Engine string `key:"engine" default:"sqlite" oneof:"sqlite postgres redis memory"`
	// The file of engine sqlite. A relative path is relative to the working directory.
	Path string `key:"path" default:"comporta.db" check:"text"`
	// How large the file of engine sqlite may grow, or what engine memory holds: 256MiB unless it is said. What is full takes no new keys; sqlite keeps an eighth more for the answers of those that run. A shared store has the bounds of its server.
	MaxBytes Size `key:"max_bytes" default:"16GiB" range:"1MiB..1TiB"`
	// How many keys engine memory holds.
	MaxRecords int `key:"max_records" default:"100000" range:"1..100000000"`
	// The address for engine postgres or redis: postgres://user:password@host:5432/database, redis://user:password@host:6379/0.
	URL StoreURL `key:"url" default:"" check:"storeurl"`
	// A file that holds the address, in place of url.
	URLFile string `key:"url_file" default:"" check:"file"`
}

// Idempotency says what becomes of the Idempotency-Key of requests that are not
// safe by their method.
type Idempotency struct {
	// The routes whose keys are kept, by name or pattern; other is what matches none. Empty: keys are the service's affair.
	Routes []KeyedRoute `key:"routes" default:"[]"`
	// Refuse requests without a key.
	Require bool `key:"require" default:"false"`
	// How long an answer is kept.
	TTL time.Duration `key:"ttl" default:"24h" range:"1m..8760h"`
	// What a repeat is told while the first still runs. conflict: 409 and when to ask again. wait: it stands by and gets the first one's answer.
	InFlight string `key:"in_flight" default:"conflict" oneof:"conflict wait"`
	// After a complete answer of 500 to 599, but for 503. replay: it is the answer. release: the key is free again, for services that do nothing twice by themselves.
	On5xx string `key:"on_5xx" default:"replay" oneof:"replay release"`
	// After 503. release: nothing was done, and the key is free again. unknown: a proxy before the service may have said so after the service was asked.
	On503 string `key:"on_503" default:"release" oneof:"release unknown"`
	// When nobody knows what became of the first, after its lease. refuse: say so. execute: run it again, for services that do nothing twice by themselves.
	OnUnknown string `key:"on_unknown" default:"refuse" oneof:"refuse execute"`
	// While the store is away. refuse: 503. pass: requests go to the service unprotected.
	OnStoreFailure string `key:"on_store_failure" default:"refuse" oneof:"refuse pass"`
	// The largest body of an answer that is kept. What is larger is known to be done, and not said again.
	BodyLimit Size `key:"body_limit" default:"256KiB" range:"1KiB..4MiB"`
	// How long a request is believed to run after the last sign of life of its gateway.
	Lease time.Duration `key:"lease" default:"30s" range:"1s..1h"`
	// The most that a request waits for one call to the store.
	Timeout time.Duration `key:"timeout" default:"1s" range:"10ms..30s"`
}

// KeyedRoute is a route whose keys are kept, and what differs there from the rest.
type KeyedRoute struct {
	// Its name or pattern.
	Route string `key:"route" check:"text"`
	// As above, for this route; likewise the following.
	Require bool `key:"require" default:"false"`
	// How long an answer is kept.
	TTL time.Duration `key:"ttl" default:"24h" range:"1m..8760h"`
	// conflict or wait.
	InFlight string `key:"in_flight" default:"conflict" oneof:"conflict wait"`
	// replay or release.
	On5xx string `key:"on_5xx" default:"replay" oneof:"replay release"`
	// release or unknown.
	On503 string `key:"on_503" default:"release" oneof:"release unknown"`
	// refuse or execute.
	OnUnknown string `key:"on_unknown" default:"refuse" oneof:"refuse execute"`
	// refuse or pass.
	OnStoreFailure string `key:"on_store_failure" default:"refuse" oneof:"refuse pass"`
}

// RetryPolicy is the remote switch of the clients.
type RetryPolicy struct {
	// The document, served at /.well-known/retry-policy and read again when it changes. Empty: the path belongs to the service.
	File string `key:"file" default:"" check:"file"`
}

// Contract says how refusals speak.
type Contract struct {
	// en: problem+json (RFC 9457). pt-BR: the vocabulary of the source article.
	Dialect string `key:"dialect" default:"en" oneof:"en pt-BR"`
	// The page whose anchors are the codes, for a problem's type. Empty: the project's own page.
	TypeBase string `key:"type_base" default:"" check:"typebase"`
	// What browsers may read.
	CORS CORS `key:"cors"`
}

// CORS says which pages may read refusals with credentials.
type CORS struct {
	// Origins answered by name, with credentials; all others get *.
	Origins []string `key:"origins" default:"[]" check:"origin"`
}

// Telemetry says what is measured.
type Telemetry struct {
	// How many clients get series of their own; 0: none.
	TopClients int `key:"top_clients" default:"20" range:"0..1000"`
}
