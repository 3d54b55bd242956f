package gate

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate/overload"
)

const (
	headerGRPCStatus = "Grpc-Status"
	headerPushback   = "Grpc-Retry-Pushback-Ms"
)

// grpcResult is what the head of a gRPC answer says: a status in the head is the
// answer (Trailers-Only), anything else is still to come in the trailers. An
// HTTP failure is one whatever trails.
func grpcResult(h http.Header, status int) comporta.Result {
	if code, ok := grpcStatus(h, ""); ok {
		return comporta.ResultOfGRPC(code)
	}
	if status == http.StatusOK {
		return comporta.ResultPending
	}
	return comporta.ResultOf(status)
}

func grpcStatus(h http.Header, prefix string) (code int, ok bool) {
	vs := h[prefix+headerGRPCStatus]
	if len(vs) == 0 {
		return 0, false
	}
	code, err := strconv.Atoi(vs[0])
	return code, err == nil
}

// readTrailers learns the outcome of a gRPC call from its trailers, declared or
// not, and adds to them what the contract owes a caller that was told to go.
func (x *exchange) readTrailers() {
	h := x.Header()
	for _, prefix := range [...]string{"", http.TrailerPrefix} {
		code, ok := grpcStatus(h, prefix)
		if !ok {
			continue
		}
		x.result = comporta.ResultOfGRPC(code)
		now := time.Now()
		hopeless := x.d.HeadAt(now, x.outcome(now))
		trailer := http.Header{headerGRPCStatus: h[prefix+headerGRPCStatus], headerPushback: takeTrailer(h, headerPushback)}
		overload.Decorate(trailer, x.status, &overload.Decoration{Now: now, Hopeless: hopeless, Slot: x.slot})
		for name, values := range trailer {
			if name != headerGRPCStatus && len(values) > 0 {
				delete(h, name)
				h[http.TrailerPrefix+name] = values // an undeclared trailer, which HTTP/2 allows
			}
		}
		return
	}
	x.result = comporta.ResultFailed // a call without a status broke off
}

// takeTrailer removes a trailer, however it was written: a server of grpc-go behind
// net/http declares some, and writes others in lower case under http.TrailerPrefix.
func takeTrailer(h http.Header, name string) (values []string) {
	for key, vs := range h {
		if strings.EqualFold(strings.TrimPrefix(key, http.TrailerPrefix), name) {
			values = append(values, vs...)
			delete(h, key)
		}
	}
	return values
}
