package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/comporta/comporta/storm/live"
)

// A storm goes nowhere but to this machine, unless its target's host is named twice.
func TestStormTarget(t *testing.T) {
	for _, tt := range []struct {
		target, owned, problem string
		anywhere               bool
	}{
		{target: "http://127.0.0.1:8080"},
		{target: "http://localhost:8080/api/"},
		{target: "http://[::1]:8080"},
		{target: "http://127.0.0.1:8080", owned: "127.0.0.1"},
		{target: "https://shop.example", owned: "shop.example", anywhere: true},
		{target: "http://192.0.2.1", owned: "192.0.2.1", anywhere: true},
		{target: "", problem: "is required"},
		{target: "https://shop.example", problem: "-i-own-this-target shop.example"},
		{target: "http://192.0.2.1", problem: "not on loopback"},
		{target: "http://localhost.example", problem: "not on loopback"},
		{target: "http://127.0.0.1.example", problem: "not on loopback"},
		{target: "https://shop.example", owned: "example", problem: "is not the host of the target"},
		{target: "https://127.0.0.1@shop.example", owned: "127.0.0.1", problem: "use http"},
		{target: "ftp://127.0.0.1", problem: "use http"},
		{target: "http://", problem: "use http"},
		{target: "http://127.0.0.1/?q=1", problem: "use http"},
		{target: "http://%zz", problem: "-target"},
	} {
		u, anywhere, err := stormTarget(tt.target, tt.owned)
		switch {
		case tt.problem != "":
			if err == nil || !strings.Contains(err.Error(), tt.problem) {
				t.Errorf("%q, owned %q: %v, want a word of %q", tt.target, tt.owned, err, tt.problem)
			}
		case err != nil:
			t.Errorf("%q, owned %q: %v", tt.target, tt.owned, err)
		case anywhere != tt.anywhere || strings.HasSuffix(u.String(), "/"):
			t.Errorf("%q: %v, anywhere %t", tt.target, u, anywhere)
		}
	}
}

// A name that leads off this machine is found out when it is dialled.
func TestStormStaysOnLoopback(t *testing.T) {
	transport := live.NewTransport(false)
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://192.0.2.1:9/", http.NoBody)
	resp, err := transport.RoundTrip(req)
	if err == nil {
		_ = resp.Body.Close()
		t.Fatal("it was sent")
	}
	if !strings.Contains(err.Error(), live.ErrNotLoopback.Error()) {
		t.Error(err)
	}
}

func TestStormMisused(t *testing.T) {
	for _, args := range [][]string{
		{},
		{"-target", "http://127.0.0.1:1", "extra"},
		{"-target", "http://127.0.0.1:1", "-rate", "0"},
		{"-target", "http://127.0.0.1:1", "-rate", "NaN"},
		{"-target", "http://127.0.0.1:1", "-rate", "1001"},
		{"-target", "http://127.0.0.1:1", "-duration", "1s"},
		{"-target", "http://127.0.0.1:1", "-duration", "11m"},
		{"-target", "http://192.0.2.1"},
	} {
		var out, errs bytes.Buffer
		if code := runStorm(t.Context(), args, &out, &errs); code != exitUsage || errs.Len() == 0 {
			t.Errorf("%q: exit %d, %s", args, code, errs.String())
		}
	}
}

// Six seconds of it, against a server that answers at once.
func TestStorm(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	for _, asJSON := range []bool{false, true} {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			args := []string{"-target", server.URL, "-rate", "20", "-duration", "6s"}
			if asJSON {
				args = append(args, "-json")
			}
			var out, errs bytes.Buffer
			if code := runStorm(t.Context(), args, &out, &errs); code != exitFine {
				t.Fatalf("exit %d: %s", code, errs.String())
			}
			if !asJSON {
				if lines := strings.Count(out.String(), "\n"); lines != 7 {
					t.Errorf("%d lines for a heading and six seconds:\n%s", lines, out.String())
				}
				return
			}
			var r stormResult
			if err := json.Unmarshal(out.Bytes(), &r); err != nil {
				t.Fatal(err)
			}
			sent, succeeded := 0, 0
			for _, s := range r.Seconds {
				sent, succeeded = sent+s.Originals+s.Repeats, succeeded+s.Succeeded
			}
			if len(r.Seconds) != 6 || sent != r.Result.Requests || sent < 50 || succeeded < sent*9/10 {
				t.Errorf("%d sent, %d succeeded: %+v", sent, succeeded, r)
			}
		})
	}
}
