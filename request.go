package comporta

import (
	"crypto/tls"
	"net/http"
	"net/netip"
	"time"
)

// Request is one request on its way through the gate, without its transport.
//
// Whoever faces a transport (net/http, gRPC, a simulator) fills the head; the
// stages of the gate fill the rest in the order of the fields. A Request belongs
// to one goroutine at a time. It may be reused after Reset.
type Request struct {
	// The head, written by the transport's face.
	Method string
	Host   string // lower case, without port
	Path   string // canonical: what policy reads is what is forwarded
	Query  string // raw, byte for byte
	Header http.Header
	Remote netip.Addr           // the TCP peer, or what PROXY protocol said of it
	TLS    *tls.ConnectionState // nil without TLS
	GRPC   bool                 // a gRPC call: refusals are trailers-only
	ID     string               // request id as the caller named it; empty without
	Serial uint64               // names the request in this process when the caller did not; 0 = no name
	// BodySize is the declared body length in bytes, 0 for none, -1 for unknown.
	BodySize int64
	// Body digests the request's body when a stage asks for it; nil when the
	// transport cannot, or there is no body. See [BodyDigester].
	Body BodyDigester

	// Signals of the wire contract, written by Signals.Read.
	Attempt        int           // declared attempt, 0 = first; a declaration can only demote
	IdempotencyKey string        // without quotes; empty when absent or invalid
	InvalidKey     bool          // an Idempotency-Key was present and could not be read
	Patience       time.Duration // how long the caller waits for this call; 0 = unknown
	Ticket         string        // the Retry-Ticket as sent, not yet verified
	Version        ClientVersion // what the caller says it runs

	Client   Client   // written by gate/identity
	Route    int      // index of the matching route, written by gate; 0 = "other"
	Sighting Sighting // written by gate/repeat
	Slot     Slot     // written by gate/calendar
}

// Reset clears r for the next request.
func (r *Request) Reset() { *r = Request{} }

// Safe reports whether the method is safe in the sense of RFC 9110, 9.2.1: the
// caller asks to read, so a twin in flight is no retry.
func (r *Request) Safe() bool { return SafeMethod(r.Method) }

// SafeMethod reports whether an HTTP method is safe (RFC 9110, 9.2.1).
func SafeMethod(m string) bool {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// Preflight reports whether a method and header ask a browser's question before
// the real request. It is never refused: that would turn a busy server into a
// forbidden one, and the browser may remember it.
func Preflight(method string, h http.Header) bool {
	return method == http.MethodOptions && h.Get("Origin") != "" && h.Get("Access-Control-Request-Method") != ""
}

// BodyDigester gives a keyed digest of the whole request body. It reads the body
// into memory, so a stage asks only where the answer can matter. ok is false
// when the body cannot be had within its limits; the body stays readable for the
// service in every case.
type BodyDigester interface {
	DigestBody() (digest uint64, ok bool)
}

// Class says how far a client's identity can be believed.
type Class uint8

// The classes, from the least to the most believed.
const (
	ClassAnonymous Class = iota // claimed by a header, or only a network
	ClassProven                 // its credential was answered below 400 within a day on a route that is not public
	ClassVerified               // JWT checked against JWKS, or a client certificate
	ClassInternal               // the gateway's own traffic and routes of class internal
	numClasses
)

var classNames = [numClasses]string{"anonymous", "proven", "verified", "internal"}

func (c Class) String() string { return nameOf(classNames[:], int(c)) }

// Believed reports whether the class is proven or better: only then may it
// outrank others when the house is full.
func (c Class) Believed() bool { return c >= ClassProven }

// Client says who asks. The credential itself is never kept: Key is a keyed hash
// of it, the same on every replica that shares a key file.
type Client struct {
	Key     uint64     // keyed hash of the identity; never 0 after identification
	Network uint64     // keyed hash of the network prefix, the aggregate of everything claimed in it
	Addr    netip.Addr // the client's address, behind trusted proxies
	Class   Class
	Shared  bool   // many users behind one key: a network, or an identity marked so
	Name    string // readable name from the configuration, or empty
}

// ClientVersion is what a caller says it runs: `Client-Version: name/semver`.
type ClientVersion struct {
	Name                string // empty when absent or malformed
	Major, Minor, Patch uint32
	Pre                 string // pre-release part, without the dash
}

// Kind says what a request is in the light of those seen before it.
type Kind uint8

// The kinds. A poll is treated as an original: it repeats something that
// succeeded, so it asks anew.
const (
	KindOriginal Kind = iota
	KindPoll
	KindRetry
	KindHopeless // a retry of what failed deterministically, several times
	numKinds
)

var kindNames = [numKinds]string{"original", "poll", "retry", "hopeless"}

func (k Kind) String() string { return nameOf(kindNames[:], int(k)) }

// Repeat reports whether the kind gives way to originals.
func (k Kind) Repeat() bool { return k >= KindRetry }

// Evidence says why a request is held to be a repeat, strongest last. Only
// evidence above EvidenceShared may cost a client anything.
type Evidence uint8

// The kinds of evidence.
const (
	EvidenceNone     Evidence = iota
	EvidenceShared            // a fingerprint under a shared key: a metric, never an accusation
	EvidenceBody              // a fingerprint with the body under a per-user credential
	EvidenceDeclared          // the caller said so
	EvidenceKey               // an Idempotency-Key
	EvidenceTicket            // a ticket that we signed
	numEvidence
)

var evidenceNames = [numEvidence]string{"none", "shared", "body", "declared", "key", "ticket"}

func (e Evidence) String() string { return nameOf(evidenceNames[:], int(e)) }

// Sighting is what gate/repeat knows of a request.
type Sighting struct {
	Kind     Kind
	Evidence Evidence
	// Attempts counts the sightings of the operation in the window, this one included.
	Attempts int
	// Name is the fingerprint of the operation, written as soon as the client is
	// known where it does not depend on the body; 0 = not yet. Only gate/repeat reads it.
	Name uint64
	// Ref finds the sighting again when its outcome is known. Only gate/repeat reads it; 0 = not filed.
	Ref uint64
}

// SlotState says how a request stands to the instant that it was given.
type SlotState uint8

// The states of a slot.
const (
	SlotNone     SlotState = iota // no instant is booked for this operation
	SlotRedeemed                  // came at its instant
	SlotAged                      // came at its instant before, and was refused all the same
	SlotEarly                     // came before its instant
	SlotPlain                     // came at an instant that was never booked (over the client's share): a plain repeat
	numSlotStates
)

var slotNames = [numSlotStates]string{"none", "redeemed", "aged", "early", "plain"}

func (s SlotState) String() string { return nameOf(slotNames[:], int(s)) }

// Slot is what gate/calendar knows of a request.
type Slot struct {
	State SlotState
	Due   time.Time // the instant it was given; zero for SlotNone
	// Operation is the 64-bit name of the operation in the due table.
	Operation uint64
	// Disobedient marks a client that keeps coming early: it gives way to other repeats.
	Disobedient bool
	// Crowding marks a client with many bookings of which it redeems few: its originals rank as retries.
	Crowding bool
}

func nameOf(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return "unknown"
}
