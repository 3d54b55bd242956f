package live_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/comporta/comporta/storm"
	"github.com/comporta/comporta/storm/live"
)

// brief is a storm of less than two seconds, for the parts that need a real
// network.
func brief() storm.Scenario {
	s := storm.Incident()
	s.Length, s.OutageAt, s.Outage = 1750*time.Millisecond, 500*time.Millisecond, 500*time.Millisecond
	s.Wake, s.Spread = 200*time.Millisecond, 50*time.Millisecond
	s.FreshWithin, s.Window = 250*time.Millisecond, 250*time.Millisecond
	s.Service.Latency, s.Service.Slots = 20*time.Millisecond, 20
	return s
}

func TestIncidentOnLoopback(t *testing.T) {
	var local, watched atomic.Int64
	rec, err := live.Incident(t.Context(), brief(), func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil && net.ParseIP(host).IsLoopback() {
				local.Add(1)
			}
			next.ServeHTTP(w, r)
		})
	}, func(rec *live.Recording) { watched.Add(1) })
	if err != nil {
		t.Fatal(err)
	}
	r := rec.Result()
	if r.Requests < 100 || int(local.Load()) > r.Requests || r.Served == 0 || rec.Worked < r.Served {
		t.Errorf("%+v, worked %d, %d arrived", r, rec.Worked, local.Load())
	}
	if watched.Load() == 0 {
		t.Error("nobody was told how it went")
	}
}

func TestIncidentEndsWithItsContext(t *testing.T) {
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	rec, err := live.Incident(ctx, storm.Incident(), nil, func(*live.Recording) { cancel(stop) })
	if !errors.Is(err, stop) || rec != nil {
		t.Errorf("%v, %v", rec, err)
	}
}

func TestRunReportsAllProblems(t *testing.T) {
	s := live.Storm{Scenario: storm.Scenario{Length: time.Hour}}
	_, err := s.Run(t.Context())
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"Demand", "Length: 1h0m0s is beyond", "URL"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("nothing about %q in\n%v", want, err)
		}
	}
}
