package retry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"time"

	"github.com/comporta/comporta/breaker"
	"github.com/comporta/comporta/bulkhead"
)

// Stop marks an error that another try cannot change. Do returns it at once; the
// mark is seen through wrapping, and errors.Is and errors.As see err. Stop(nil)
// is nil.
func Stop(err error) error {
	if err == nil {
		return nil
	}
	return &marked{err: err, stop: true}
}

// After marks an error after which the next try is to be made not before wait:
// what the other side asked for. The envelope may end the operation for it.
// After(nil, …) is nil; a negative wait is 0 and leaves the wait to the policy.
func After(err error, wait time.Duration) error {
	if err == nil {
		return nil
	}
	return &marked{err: err, wait: max(wait, 0)}
}

// marked is an error with a word on repeating.
type marked struct {
	err  error
	stop bool
	wait time.Duration
}

func (m *marked) Error() string { return m.err.Error() }

func (m *marked) Unwrap() error { return m.err }

// OfError reads an error by its type. nil is success.
//
// A fault before anything was written (dialing, looking up a name) leaves the
// other side untouched. A refusal of a local breaker or bulkhead is nobody's
// failure and is not repeated. A name that does not exist, a certificate that
// does not hold and a call that somebody cancelled stay what they are. The rest
// may have had its effect, and may pass.
func OfError(err error) Sign {
	if err == nil {
		return Sign{OK: true}
	}
	if m, ok := errors.AsType[*marked](err); ok {
		if m.stop {
			return Sign{Stop: true, Reason: ReasonStopped}
		}
		return Sign{Retryable: true, Wait: m.wait}
	}
	switch {
	case errors.Is(err, breaker.ErrOpen):
		return Sign{Stop: true, Untouched: true, Reason: ReasonBreaker}
	case errors.Is(err, bulkhead.ErrFull):
		return Sign{Stop: true, Untouched: true, Reason: ReasonBulkhead}
	case beforeWriting(err):
		return Sign{Retryable: !nameUnknown(err), Untouched: true}
	case errors.Is(err, context.Canceled), distrusted(err), errors.Is(err, ErrNested):
		return Sign{}
	}
	return Sign{Retryable: true}
}

// beforeWriting reports whether the fault came before a connection was there.
func beforeWriting(err error) bool {
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return true
	}
	op, ok := errors.AsType[*net.OpError](err)
	return ok && (op.Op == "dial" || op.Op == "proxyconnect")
}

func nameUnknown(err error) bool {
	dns, ok := errors.AsType[*net.DNSError](err)
	return ok && dns.IsNotFound && !dns.IsTemporary
}

// distrusted reports whether the two ends could not agree on TLS.
func distrusted(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.AlertError](err); ok {
		return true
	}
	_, ok := errors.AsType[tls.RecordHeaderError](err)
	return ok
}
