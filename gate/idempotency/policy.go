package idempotency

import (
	"fmt"
	"time"

	"github.com/comporta/comporta/store"
)

// Policy is what becomes of keys on one route. The zero value executes an
// operation once, replays what it answered, and says so where it does not know.
type Policy struct {
	// Require refuses operations without a key.
	Require bool
	// TTL is how long an answer is kept; 0 means DefaultTTL.
	TTL time.Duration
	// Wait lets a duplicate stand by until the first has its answer, and gives it
	// that. Otherwise it is told that the first still runs.
	Wait bool
	// Release5xx frees the key after a complete answer of 500 to 599: for services
	// that do nothing twice themselves.
	Release5xx bool
	// Doubt503 takes 503 for an answer after which nobody knows what was done, as
	// some proxies give it. Otherwise it frees the key: nothing was done.
	Doubt503 bool
	// ExecuteUnknown lets an operation run again whose first run ended nobody knows
	// how. Otherwise that is what its client is told.
	ExecuteUnknown bool
	// Pass lets operations through unprotected while the store is down. Otherwise
	// they are refused.
	Pass bool
}

// DefaultTTL is how long an answer is kept.
const DefaultTTL = 24 * time.Hour

func (p *Policy) ttl() time.Duration {
	if p.TTL == 0 {
		return DefaultTTL
	}
	return p.TTL
}

// Check says what is wrong with a policy under a lease.
func (p *Policy) Check(lease time.Duration) error {
	if lease == 0 {
		lease = DefaultLease
	}
	if ttl := p.ttl(); ttl < lease || ttl > store.MaxTTL {
		return fmt.Errorf("idempotency: TTL %v is not within the lease of %v and %v", ttl, lease, store.MaxTTL)
	}
	return nil
}

// Ending is what an answer says about the operation.
type Ending uint8

// The endings.
const (
	Record  Ending = iota // it ended: the answer is the one that every repeat gets
	Release               // nothing was done: the key is free again
	Refused               // as Release; those who stand by get the answer too, and do not ask one after the other
	Doubt                 // nobody knows: the claim stays until its lease ends
)

// EndingOf reads a complete answer of the service's own.
//
// 401, 407, 421 and 425 say by their definitions that the request was not applied
// (RFC 9110, 15.5.2, 15.5.8 and 15.5.20; RFC 8470, 5.2). They speak of the
// credentials or the connection of one try, and those who stand by may have better
// ones: they ask for themselves. 408 is recorded: a service that has acted, and was
// kept waiting by another, may say it too.
func (p *Policy) EndingOf(status int) Ending {
	switch {
	case status < 200: // protocols were switched: no answer followed
		return Doubt
	case status == 401, status == 407, status == 421, status == 425:
		return Release
	case status == 429:
		return Refused
	case status == 503 && p.Doubt503:
		return Doubt
	case status == 503:
		return Refused
	case status >= 500 && p.Release5xx:
		return Refused
	}
	return Record
}

// The gRPC statuses that say what 401, 429, 503 and 5xx say, and those that say that
// whoever was asked in turn had no time left.
const (
	grpcCanceled          = 1
	grpcUnknown           = 2
	grpcDeadlineExceeded  = 4
	grpcResourceExhausted = 8
	grpcInternal          = 13
	grpcUnavailable       = 14
	grpcDataLoss          = 15
	grpcUnauthenticated   = 16
)

// EndingOfGRPC is EndingOf for the status of a gRPC call that was answered.
func (p *Policy) EndingOfGRPC(code int) Ending {
	switch code {
	case grpcCanceled, grpcDeadlineExceeded:
		return Doubt
	case grpcUnauthenticated:
		return p.EndingOf(401)
	case grpcResourceExhausted:
		return p.EndingOf(429)
	case grpcUnavailable:
		return p.EndingOf(503)
	case grpcUnknown, grpcInternal, grpcDataLoss:
		return p.EndingOf(500)
	}
	return Record
}
