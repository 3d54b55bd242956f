package retry

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/comporta/comporta/client/budget"
	"github.com/comporta/comporta/internal/retryafter"
)

// The vectors in docs/vectors, which clients in other languages pass too.

type vectorPolicy struct {
	MaxAttempts     int   `json:"max_attempts"`
	TotalMs         int64 `json:"total_ms"`
	MinAttemptMs    int64 `json:"min_attempt_ms"`
	BaseMs          int64 `json:"base_ms"`
	CapMs           int64 `json:"cap_ms"`
	FloorMs         int64 `json:"floor_ms"`
	RetryAfterMaxMs int64 `json:"retry_after_max_ms"`
}

type vectorOperation struct {
	Attempts   int     `json:"attempts"`
	Step       int     `json:"step"`
	LeftMs     int64   `json:"left_ms"`
	Idempotent bool    `json:"idempotent"`
	Keyed      bool    `json:"keyed"`
	Replayable bool    `json:"replayable"`
	Nested     bool    `json:"nested"`
	Over       bool    `json:"over"`
	BlockedMs  int64   `json:"blocked_ms"`
	Tokens     float64 `json:"tokens"`
}

type vectorSides struct {
	Policy    vectorPolicy    `json:"policy"`
	Operation vectorOperation `json:"operation"`
}

type decisionVector struct {
	Name string `json:"name"`
	vectorSides
	Response *struct {
		Status  int                 `json:"status"`
		Headers map[string][]string `json:"headers"`
		Body    string              `json:"body"`
	} `json:"response"`
	Fault string `json:"fault"`
	Want  struct {
		Again     bool   `json:"again"`
		Reason    string `json:"reason"`
		WaitMinMs int64  `json:"wait_min_ms"`
		WaitMaxMs int64  `json:"wait_max_ms"`
	} `json:"want"`
}

func readVectors(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "vectors", name))
	if err != nil {
		t.Fatal(err)
	}
	strict(t, text, into)
}

func strict(t *testing.T, text []byte, into any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields() // a field that is not read would test nothing
	if err := d.Decode(into); err != nil {
		t.Fatalf("%.200s: %v", text, err)
	}
}

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func canonical(headers map[string][]string) http.Header {
	h := http.Header{}
	for name, values := range headers {
		for _, v := range values {
			h.Add(name, v)
		}
	}
	return h
}

func (v *decisionVector) decide(t *testing.T, u float64) Decision {
	t.Helper()
	p := Policy{
		MaxAttempts: v.Policy.MaxAttempts, Total: millis(v.Policy.TotalMs), MinAttempt: millis(v.Policy.MinAttemptMs),
		Base: millis(v.Policy.BaseMs), Cap: millis(v.Policy.CapMs), Floor: millis(v.Policy.FloorMs),
		RetryAfterMax: millis(v.Policy.RetryAfterMaxMs),
	}
	budgets, err := budget.New(budget.Config{})
	if err != nil {
		t.Fatal(err)
	}
	bucket := budgets.Of("x")
	for bucket.Level() > v.Operation.Tokens && bucket.Withdraw() {
	}
	o := Operation{
		Deadline: testNow.Add(millis(v.Operation.LeftMs)), Attempts: v.Operation.Attempts, Step: v.Operation.Step,
		Idempotent: v.Operation.Idempotent || v.Operation.Keyed, Replayable: v.Operation.Replayable, Nested: v.Operation.Nested,
		Over: v.Operation.Over, Blocked: millis(v.Operation.BlockedMs), Budget: bucket,
	}
	var s Sign
	switch v.Fault {
	case "before_bytes":
		s = OfError(&net.OpError{Op: "dial", Err: io.EOF})
	case "after_bytes":
		s = OfError(io.ErrUnexpectedEOF)
	case "timeout":
		s = OfError(ErrAttemptTimeout)
	default:
		s = OfResponse(testNow, v.Response.Status, canonical(v.Response.Headers), []byte(v.Response.Body), v.Operation.Keyed)
	}
	return p.DecideAt(testNow, &o, s, u)
}

func TestVectorsDecisions(t *testing.T) {
	var file struct {
		Format   int               `json:"format"`
		Defaults vectorSides       `json:"defaults"`
		Vectors  []json.RawMessage `json:"vectors"`
	}
	readVectors(t, "decisions.json", &file)
	if file.Format != 1 || len(file.Vectors) < 60 {
		t.Fatalf("format %d, %d vectors", file.Format, len(file.Vectors))
	}
	for _, text := range file.Vectors {
		v := decisionVector{vectorSides: file.Defaults}
		strict(t, text, &v)
		for _, u := range []float64{0, 0.5, 0.999999} {
			d := v.decide(t, u)
			least, most := millis(v.Want.WaitMinMs), millis(v.Want.WaitMaxMs)
			if d.Again != v.Want.Again || d.Reason.String() != v.Want.Reason || d.Wait < least || d.Wait > most {
				t.Errorf("%s: %+v, want %+v", v.Name, d, v.Want)
			}
			if v.Want.Again && ((u == 0 && d.Wait != least) || (u > 0.99 && most-d.Wait > time.Millisecond*10)) {
				t.Errorf("%s: a draw of %v waits %v, within [%v, %v]", v.Name, u, d.Wait, least, most)
			}
		}
	}
}

func TestVectorsWaits(t *testing.T) {
	var file struct {
		Format  int `json:"format"`
		Vectors []struct {
			Headers map[string][]string `json:"headers"`
			Want    struct {
				Known  bool  `json:"known"`
				WaitMs int64 `json:"wait_ms"`
			} `json:"want"`
		} `json:"vectors"`
	}
	readVectors(t, "waits.json", &file)
	for _, v := range file.Vectors {
		s := retryafter.WaitAt(testNow, canonical(v.Headers))
		if s.Known != v.Want.Known || s.Exact() != millis(v.Want.WaitMs) {
			t.Errorf("%v: %t %v, want %+v", v.Headers, s.Known, s.Exact(), v.Want)
		}
	}
}
