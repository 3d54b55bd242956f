package front

import (
	"net/http"
	"strconv"

	"github.com/comporta/comporta"
)

// Fault is why a request is refused before a handler sees it, or why its body
// cannot be read.
type Fault struct { //nolint:errname // it is the fault of a request first, and an error where a reader returns it
	Reason comporta.Reason
	Status int    // that of the reason, unless HTTP has a closer one: 417, 505
	Detail string // for the developer of the client; nothing of what was sent
}

// Error says what is wrong.
func (f *Fault) Error() string { return "front: " + f.Detail }

func fault(reason comporta.Reason, detail string) *Fault {
	return &Fault{Reason: reason, Status: reason.Info().Status, Detail: detail}
}

func malformed(detail string) *Fault { return fault(comporta.MalformedRequest, detail) }

// The faults, one value each: refusing must not cost more than serving.
var (
	errLine        = malformed("the request line is not method, target and version, one space apart")
	errMethod      = malformed("the method is not a token")
	errVersion     = &Fault{comporta.MalformedRequest, http.StatusHTTPVersionNotSupported, "the version is neither HTTP/1.0 nor HTTP/1.1"}
	errLF          = malformed("a line does not end with CR LF")
	errControl     = malformed("a control character stands in the head")
	errFold        = malformed("a header line is folded")
	errName        = malformed("a header name is not a token followed by a colon")
	errTarget      = malformed("the request target is invalid")
	errFragment    = malformed("the request target holds a fragment")
	errTargetHost  = malformed("the request target names another host than Host")
	errAsterisk    = malformed("the target * is for OPTIONS only")
	errNoHost      = malformed("there is no Host")
	errHosts       = malformed("there is more than one Host")
	errHost        = malformed("the Host is invalid")
	errLength      = malformed("Content-Length is not one decimal number")
	errLengths     = malformed("there is more than one Content-Length")
	errBoth        = malformed("there are both Content-Length and Transfer-Encoding")
	errCodingTwice = malformed("there is more than one transfer coding chunked")
	errCodingOld   = malformed("HTTP/1.0 has no transfer codings")
	errCoding      = fault(comporta.UnimplementedTransferCoding, "the transfer coding is not chunked alone")
	errExpect      = &Fault{comporta.MalformedRequest, http.StatusExpectationFailed, "the expectation is not 100-continue"}
	errConnect     = fault(comporta.MethodNotAllowed, "CONNECT is not served here")
	errURI         = fault(comporta.URITooLong, "the request target is too long")
	errHeader      = fault(comporta.HeaderTooLarge, "the header is too large")
	errFields      = fault(comporta.HeaderTooLarge, "there are too many header fields")
	errSlowHead    = fault(comporta.RequestTimeout, "the head did not arrive in time")
	errPlain       = malformed("plain HTTP came to a port that speaks TLS")
	errCrowd       = fault(comporta.ConnectionLimit, "there are too many connections")

	errChunk   = malformed("the chunked body is malformed")
	errTrailer = malformed("a trailer is malformed, too large, or a field that has no place there")
)

// refusePlain is the default of Config.Refuse.
func refusePlain(w http.ResponseWriter, r *http.Request, f *Fault) {
	info := f.Reason.Info()
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set(comporta.HeaderDecision, info.Code)
	h.Set(comporta.HeaderShouldRetry, strconv.FormatBool(info.Retryable))
	if info.Retryable {
		h.Set(comporta.HeaderRetryAfter, "1")
	}
	h.Set("Content-Length", strconv.Itoa(len(f.Detail)+1))
	w.WriteHeader(f.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write([]byte(f.Detail + "\n"))
	}
}
