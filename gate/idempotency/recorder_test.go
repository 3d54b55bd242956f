package idempotency

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// When a service wants to be asked again is heard wherever it can be said.
func TestRecorderHearsWhenToComeAgain(t *testing.T) {
	const pushback, prefix = "Grpc-Retry-Pushback-Ms", http.TrailerPrefix
	for _, tc := range []struct {
		head, trailers http.Header
		want           time.Duration
	}{
		{nil, nil, 0},
		{http.Header{"Retry-After": {"7"}}, nil, 7 * time.Second},
		{http.Header{"Retry-After": {"7"}, "X-Should-Retry": {"false"}}, nil, -1},
		{http.Header{pushback: {"7001"}}, nil, 7001 * time.Millisecond},
		{http.Header{pushback: {"-1"}}, nil, -1},
		{nil, http.Header{prefix + pushback: {"7001"}}, 7001 * time.Millisecond},
		{nil, http.Header{prefix + "grpc-retry-pushback-ms": {"7001"}}, 7001 * time.Millisecond},
		{nil, http.Header{prefix + pushback: {"-1"}}, -1},
		{nil, http.Header{prefix + pushback: {"1", "2"}}, -1},
		{http.Header{"Trailer": {pushback}}, http.Header{pushback: {"7001"}}, 7001 * time.Millisecond},
	} {
		w := httptest.NewRecorder()
		rec := NewRecorder(w, 100, func(bool) {})
		maps.Copy(w.Header(), tc.head)
		rec.WriteHeader(http.StatusOK)
		maps.Copy(w.Header(), tc.trailers)
		rec.Close(true)
		if rec.wait != tc.want {
			t.Errorf("%v, %v: %v, want %v", tc.head, tc.trailers, rec.wait, tc.want)
		}
	}
}
