package telemetry_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate"
	"github.com/comporta/comporta/gate/overload"
	"github.com/comporta/comporta/telemetry"
)

// What is refused behind admission is a refusal too: its reason is written down,
// and no sampling drops it. What succeeds has none.
func TestAccessLogHasTheReasonBehindAdmission(t *testing.T) {
	var out bytes.Buffer
	tel, err := telemetry.New(telemetry.Config{AccessLog: slog.New(slog.NewJSONHandler(&out, nil)), Sample: 1e-300}, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	g, err := gate.New(gate.Config{Trace: tel.Trace()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	tel.Watch(g)
	reasons := map[string]comporta.Reason{
		"/400": comporta.MalformedRequest, "/502": comporta.UpstreamFailed, "/503": comporta.UpstreamUnavailable, "/504": comporta.UpstreamTimeout,
	}
	h := g.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if reason, fails := reasons[r.URL.Path]; fails {
			overload.Refuse(w, r, &overload.Refusal{Reason: reason})
		}
	}))
	for path, reason := range reasons {
		out.Reset()
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, http.NoBody))
		var line struct {
			Decision string `json:"decision"`
			Reason   string `json:"reason"`
			Status   int    `json:"status"`
		}
		if err := json.Unmarshal(out.Bytes(), &line); err != nil {
			t.Errorf("%s: %v in %q", path, err, out.String())
			continue
		}
		if line.Decision != "admitted" || line.Reason != reason.String() || line.Status != reason.Info().Status {
			t.Errorf("%s: %+v", path, line)
		}
	}
	out.Reset()
	if ask(h, "/ok", "a"); out.Len() > 0 {
		t.Errorf("an admitted request is logged, or has a reason: %s", &out)
	}
}
