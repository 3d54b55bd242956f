package overload

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/internal/retryafter"
)

// Header names of gRPC over HTTP/2, in canonical form.
const (
	headerGRPCStatus   = "Grpc-Status"
	headerGRPCMessage  = "Grpc-Message"
	headerGRPCPushback = retryafter.HeaderPushback
)

// The status codes of gRPC that refusals use.
const (
	grpcUnknown            = 2
	grpcInvalidArgument    = 3
	grpcDeadlineExceeded   = 4
	grpcNotFound           = 5
	grpcPermissionDenied   = 7
	grpcResourceExhausted  = 8
	grpcFailedPrecondition = 9
	grpcAborted            = 10
	grpcOutOfRange         = 11
	grpcUnimplemented      = 12
	grpcInternal           = 13
	grpcUnavailable        = 14
	grpcUnauthenticated    = 16
)

// grpcCodes gives each reason its code: UNAVAILABLE for all that passes by
// itself, RESOURCE_EXHAUSTED for rates and sizes as gRPC's own libraries use it,
// FAILED_PRECONDITION where the caller has to change something first.
var grpcCodes = [comporta.NumReasons]int{
	comporta.CapacityExhausted:           grpcUnavailable,
	comporta.RetryDeferred:               grpcUnavailable,
	comporta.RateLimited:                 grpcResourceExhausted,
	comporta.CostExceedsBurst:            grpcResourceExhausted,
	comporta.LimiterUnavailable:          grpcUnavailable,
	comporta.ChallengeRequired:           grpcUnavailable,
	comporta.ClientTooOld:                grpcFailedPrecondition,
	comporta.HopelessRepeat:              grpcFailedPrecondition,
	comporta.ShedByOperator:              grpcUnavailable,
	comporta.UpstreamUnavailable:         grpcUnavailable,
	comporta.UpstreamFailed:              grpcUnavailable,
	comporta.UpstreamTimeout:             grpcDeadlineExceeded,
	comporta.DeadlineExceeded:            grpcDeadlineExceeded,
	comporta.IdempotencyKeyMissing:       grpcInvalidArgument,
	comporta.IdempotencyKeyInvalid:       grpcInvalidArgument,
	comporta.IdempotencyInProgress:       grpcAborted,
	comporta.IdempotencyPayloadMismatch:  grpcInvalidArgument,
	comporta.IdempotencyOutcomeUnknown:   grpcUnknown,
	comporta.IdempotencyUnavailable:      grpcUnavailable,
	comporta.IdempotencyAnswerNotKept:    grpcFailedPrecondition,
	comporta.Draining:                    grpcUnavailable,
	comporta.MalformedRequest:            grpcInvalidArgument,
	comporta.RequestTimeout:              grpcDeadlineExceeded,
	comporta.BodyTooLarge:                grpcResourceExhausted,
	comporta.URITooLong:                  grpcInvalidArgument,
	comporta.HeaderTooLarge:              grpcResourceExhausted,
	comporta.UnimplementedTransferCoding: grpcUnimplemented,
	comporta.MethodNotAllowed:            grpcUnimplemented,
	comporta.ConnectionLimit:             grpcUnavailable,
}

// GRPCCode returns the gRPC status of a refusal for a reason, for those who speak gRPC
// by a library; 0 for ReasonNone.
func GRPCCode(r comporta.Reason) int { return grpcCodes[r] }

// grpcCode returns the gRPC status of a refusal.
func grpcCode(ref *Refusal) int {
	code := grpcCodes[ref.reason()]
	if ref.Code != "" {
		code = grpcOfHTTP(ref.StatusCode())
	}
	if code != grpcUnavailable || ref.Retryable() {
		return code
	}
	// Many callers repeat on UNAVAILABLE without a look at the pushback, so a
	// final answer may not be called that.
	if ref.Outcome == OutcomeUnknown {
		return grpcUnknown
	}
	return grpcFailedPrecondition
}

// grpcOfHTTP translates the status of a service's own answer.
func grpcOfHTTP(status int) int {
	switch status {
	case 400, 414, 415, 422:
		return grpcInvalidArgument
	case 401:
		return grpcUnauthenticated
	case 403:
		return grpcPermissionDenied
	case 404, 410:
		return grpcNotFound
	case 405, 501:
		return grpcUnimplemented
	case 409:
		return grpcAborted
	case 412, 428:
		return grpcFailedPrecondition
	case 413, 429:
		return grpcResourceExhausted
	case 500:
		return grpcInternal
	case 502, 503:
		return grpcUnavailable
	case 408, 504:
		return grpcDeadlineExceeded
	}
	return grpcUnknown
}

// codeTexts saves the digits of every code.
var codeTexts = func() (texts [grpcUnauthenticated + 1]string) {
	for i := range texts {
		texts[i] = strconv.Itoa(i)
	}
	return texts
}()

// grpcContentType returns the content type of the answer to a gRPC call, and ""
// for any other request. gRPC-Web is answered in its own type: its libraries
// look at it before they look for a status.
func grpcContentType(h http.Header) string {
	vs := h["Content-Type"]
	if len(vs) == 0 {
		return ""
	}
	const plainGRPC = "application/grpc"
	kind, _, _ := strings.Cut(vs[0], ";")
	kind = strings.TrimSpace(kind)
	if len(kind) < len(plainGRPC) || !strings.EqualFold(kind[:len(plainGRPC)], plainGRPC) {
		return ""
	}
	switch rest := kind[len(plainGRPC):]; {
	case rest == "" || rest[0] == '+':
		return plainGRPC
	case strings.HasPrefix(rest, "-web"):
		return kind
	}
	return ""
}

// grpcHead writes a trailers-only answer: the header is all there is, so the
// status that otherwise trails stands in it.
func (wr *Writer) grpcHead(h http.Header, r *http.Request, ref *Refusal, s *scratch, kind string) {
	w := s.waits(ref)
	from := len(s.text)
	s.text = appendMessage(s.text, ref)
	message := span{from, len(s.text)}
	d := newHead(h, s)
	d.set("Content-Type", kind)
	d.set(headerGRPCStatus, codeTexts[grpcCode(ref)])
	d.setSpan(headerGRPCMessage, message)
	if w.retryable {
		d.setSpan(headerGRPCPushback, w.ms)
	} else {
		d.set(headerGRPCPushback, "-1") // gRFC A6: negative means do not retry
	}
	wr.contract(&d, ref, w)
	wr.allow(&d, r, exposedGRPC)
}

// appendMessage appends "code: detail", percent-encoded as gRPC asks for it:
// what is not printable ASCII, and the percent sign, as %XX.
func appendMessage(b []byte, ref *Refusal) []byte {
	b = appendPercent(b, ref.code())
	b = append(b, ": "...)
	if detail := ref.detail(); detail != "" {
		return appendPercent(b, detail)
	}
	return appendPercent(b, ref.title())
}

func appendPercent(b []byte, s string) []byte {
	const upper = "0123456789ABCDEF"
	for i := range len(s) {
		if c := s[i]; c >= ' ' && c <= '~' && c != '%' {
			b = append(b, c)
		} else {
			b = append(b, '%', upper[c>>4], upper[c&0xf])
		}
	}
	return b
}
