package grpcidem_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate/idempotency"
	"github.com/comporta/comporta/gate/idempotency/grpcidem"
)

type answer struct {
	said     string // the messages, by "|"
	err      error
	head     bool // there was a header: grpc's own repeats end with it
	replayed bool
	decision string
	pushback string
}

func (a *answer) read(header, trailer metadata.MD) {
	first := func(vs []string) string { return append(vs, "")[0] }
	a.head = len(header) > 0
	a.replayed = first(header.Get("idempotency-replayed")) == "true"
	a.decision = first(slices.Concat(header.Get("comporta-decision"), trailer.Get("comporta-decision")))
	a.pushback = first(trailer.Get("grpc-retry-pushback-ms"))
}

func (h *house) call(ctx context.Context, payload string, md ...string) (a answer) {
	var header, trailer metadata.MD
	res, err := h.client.UnaryCall(metadata.AppendToOutgoingContext(ctx, md...), &pb.SimpleRequest{Payload: &pb.Payload{Body: []byte(payload)}},
		grpc.Header(&header), grpc.Trailer(&trailer))
	a.said, a.err = res.GetUsername(), err
	a.read(header, trailer)
	return a
}

func (h *house) stream(ctx context.Context, payload string, md ...string) (a answer) {
	var header, trailer metadata.MD
	s, err := h.client.StreamingOutputCall(metadata.AppendToOutgoingContext(ctx, md...),
		&pb.StreamingOutputCallRequest{Payload: &pb.Payload{Body: []byte(payload)}}, grpc.Header(&header), grpc.Trailer(&trailer))
	var said []string
	for err == nil {
		var m *pb.StreamingOutputCallResponse
		if m, err = s.Recv(); err == nil {
			said = append(said, string(m.GetPayload().GetBody()))
		}
	}
	a.said = strings.Join(said, "|")
	if !errors.Is(err, io.EOF) {
		a.err = err
	}
	a.read(header, trailer)
	return a
}

// kinds are the kinds of calls that are kept.
var kinds = []struct {
	name string
	call func(h *house, ctx context.Context, payload string, md ...string) answer
	said func(call int, payload string) string
}{
	{"unary", (*house).call, func(n int, _ string) string { return fmt.Sprint(n) }},
	{"stream", (*house).stream, func(n int, payload string) string {
		return fmt.Sprintf("%da %s|%db %s|%dc %s", n, payload, n, payload, n, payload)
	}},
}

func TestOnce(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			run(t, idempotency.Policy{}, func(t *testing.T, h *house) {
				for i, tc := range []struct {
					payload  string
					md       []string
					call     int // whose answer comes; 0: a refusal
					replayed bool
					decision string
					detail   comporta.Detail
				}{
					{"a", []string{"idempotency-key", "k"}, 1, false, "", comporta.DetailNone},
					{"a", []string{"idempotency-key", `"k"`}, 1, true, "replayed", comporta.DetailNone},
					{"b", []string{"idempotency-key", "k"}, 0, false, "idempotency_payload_mismatch", comporta.OtherBody},
					{"a", []string{"idempotency-key", "k", "authorization", "b"}, 2, false, "", comporta.DetailNone},
					{"a", nil, 3, false, "", comporta.DetailNone},
					{"a", []string{"idempotency-key", ""}, 0, false, "idempotency_key_invalid", comporta.KeyEmpty},
					{"a", []string{"idempotency-key", "k", "idempotency-key", "l"}, 0, false, "idempotency_key_invalid", comporta.KeySentTwice},
				} {
					want, code, pushback := "", codes.InvalidArgument, "-1"
					if tc.call > 0 {
						want, code, pushback = kind.said(tc.call, tc.payload), codes.OK, ""
					}
					got := kind.call(h, t.Context(), tc.payload, tc.md...)
					if got.said != want || got.replayed != tc.replayed || status.Code(got.err) != code || got.decision != tc.decision || got.pushback != pushback {
						t.Errorf("call %d: %+v", i, got)
					}
					if want := tc.decision + ": " + tc.detail.String(); tc.call == 0 && status.Convert(got.err).Message() != want {
						t.Errorf("call %d: %v, want %q", i, got.err, want)
					}
				}
			})
		})
	}
}

func TestKeyRequired(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			run(t, idempotency.Policy{Require: true}, func(t *testing.T, h *house) {
				if got := kind.call(h, t.Context(), "a"); status.Code(got.err) != codes.InvalidArgument || got.decision != "idempotency_key_missing" || h.service.calls != 0 {
					t.Errorf("%d calls, %+v", h.service.calls, got)
				}
				if got := kind.call(h, t.Context(), "a", "idempotency-key", "k"); got.err != nil || h.service.calls != 1 {
					t.Errorf("%d calls, %+v", h.service.calls, got)
				}
			})
		})
	}
}

func TestErrorsOfTheService(t *testing.T) {
	for _, tc := range []struct {
		name   string
		policy idempotency.Policy
		err    error
		code   codes.Code
		again  string
	}{
		{"final", idempotency.Policy{}, status.Error(codes.NotFound, "no such thing"), codes.NotFound, "replayed"},
		{"internal", idempotency.Policy{}, status.Error(codes.Internal, "oops"), codes.Internal, "replayed"},
		{"internal released", idempotency.Policy{Release5xx: true}, status.Error(codes.Internal, "oops"), codes.Internal, "executed"},
		{"unavailable", idempotency.Policy{}, status.Error(codes.Unavailable, "later"), codes.Unavailable, "executed"},
		{"unauthenticated", idempotency.Policy{}, status.Error(codes.Unauthenticated, "who?"), codes.Unauthenticated, "executed"},
		{"in doubt", idempotency.Policy{}, status.Error(codes.DeadlineExceeded, "somewhere"), codes.DeadlineExceeded, "in progress"},
		{"in doubt, by a context", idempotency.Policy{}, fmt.Errorf("somewhere: %w", context.Canceled), codes.Canceled, "in progress"},
	} {
		for _, kind := range kinds {
			t.Run(tc.name+", "+kind.name, func(t *testing.T) {
				run(t, tc.policy, func(t *testing.T, h *house) {
					h.service.fail = func(context.Context) error { return tc.err }
					first := kind.call(h, t.Context(), "a", "idempotency-key", "k")
					again := kind.call(h, t.Context(), "a", "idempotency-key", "k")
					if status.Code(first.err) != tc.code {
						t.Fatalf("%+v", first)
					}
					switch tc.again {
					case "replayed":
						if h.service.calls != 1 || !again.replayed || again.said != first.said || again.err.Error() != first.err.Error() || again.pushback != "-1" {
							t.Errorf("%d calls, %+v", h.service.calls, again)
						}
					case "executed":
						if h.service.calls != 2 || again.replayed {
							t.Errorf("%d calls, %+v", h.service.calls, again)
						}
					default:
						if h.service.calls != 1 || status.Code(again.err) != codes.Aborted || again.pushback == "-1" {
							t.Errorf("%d calls, %+v", h.service.calls, again)
						}
						time.Sleep(31 * time.Second)
						if lapsed := kind.call(h, t.Context(), "a", "idempotency-key", "k"); lapsed.decision != "idempotency_outcome_unknown" {
							t.Errorf("%+v", lapsed)
						}
					}
				})
			})
		}
	}
}

// The work goes on for a caller who has left, and the next call collects it.
func TestWorkOutlivesItsCaller(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			run(t, idempotency.Policy{Wait: true}, func(t *testing.T, h *house) {
				h.service.fail = after(10 * time.Second)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if got := kind.call(h, ctx, "a", "idempotency-key", "k"); status.Code(got.err) != codes.DeadlineExceeded {
					t.Fatalf("%+v", got)
				}
				if got := kind.call(h, t.Context(), "a", "idempotency-key", "k"); got.said != kind.said(1, "a") || !got.replayed || h.service.calls != 1 {
					t.Errorf("%d calls, %+v", h.service.calls, got)
				}
				h.wants(t, idempotency.Late, 1)
				h.wants(t, idempotency.Waited, 1)
			})
		})
	}
}

// after is work that takes a while, unless it is ended.
func after(d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Those who stand by get the refusal of the first and hear when to come again, and do
// not ask one after the other. The key is free.
func TestRefusalIsPassedOn(t *testing.T) {
	for _, tc := range []struct {
		name string
		code codes.Code
		said []string // by the service, as pushback
		told string   // to those who stood by
	}{
		{"when", codes.Unavailable, []string{"7001"}, "7001"},
		{"when, of a rate", codes.ResourceExhausted, []string{"7001"}, "7001"},
		{"nothing", codes.Unavailable, nil, "1000"},
		{"at once", codes.Unavailable, []string{"0"}, "1000"},
		{"never", codes.Unavailable, []string{"-1"}, "-1"},
		{"never, by contradiction", codes.Unavailable, []string{"1", "2"}, "-1"},
	} {
		for _, kind := range kinds {
			t.Run(tc.name+", "+kind.name, func(t *testing.T) {
				run(t, idempotency.Policy{Wait: true}, func(t *testing.T, h *house) {
					h.service.trails = metadata.MD{"grpc-retry-pushback-ms": tc.said}
					h.service.fail = func(ctx context.Context) error {
						if h.service.calls > 1 {
							return nil
						}
						if _, err := grpc.ClientSupportedCompressors(ctx); err != nil {
							return err // grpc does not know its own stream
						}
						return cmp.Or(after(2*time.Second)(ctx), status.Error(tc.code, "busy"))
					}
					answers := make([]answer, 10)
					start, all := time.Now(), sync.WaitGroup{}
					for i := range answers {
						all.Go(func() { answers[i] = kind.call(h, t.Context(), "a", "idempotency-key", "k") })
						synctest.Wait() // the first has its claim
					}
					all.Wait()
					if took := time.Since(start); took != 2*time.Second || h.service.calls != 1 {
						t.Errorf("%d calls, told after %v", h.service.calls, took)
					}
					first := answers[0]
					if status.Code(first.err) != tc.code || first.decision != "" || first.pushback != append(tc.said, "")[0] {
						t.Errorf("the first: %+v", first)
					}
					for _, got := range answers[1:] {
						same := got.said == first.said && errors.Is(got.err, first.err) && got.head == first.head
						if !same || got.replayed || got.decision != "replayed" || got.pushback != tc.told {
							t.Errorf("one who stood by: %+v", got)
						}
					}
					if got := kind.call(h, t.Context(), "a", "idempotency-key", "k"); got.said != kind.said(2, "a") || got.replayed {
						t.Errorf("the key is not free: %+v", got)
					}
				})
			})
		}
	}
}

func TestAnswerTooLargeToKeep(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			run(t, idempotency.Policy{}, func(t *testing.T, h *house) {
				h.service.large = true
				first := kind.call(h, t.Context(), "a", "idempotency-key", "k")
				if first.err != nil || len(first.said) < 1000 {
					t.Fatalf("%+v", first)
				}
				again := kind.call(h, t.Context(), "a", "idempotency-key", "k")
				if status.Code(again.err) != codes.FailedPrecondition || again.decision != "idempotency_answer_not_kept" || again.said != "" || h.service.calls != 1 {
					t.Errorf("%d calls, %+v", h.service.calls, again)
				}
				h.wants(t, idempotency.BodyNotKept, 1)
				h.wants(t, idempotency.Replayed, 1)
				h.wants(t, idempotency.StoreRefused, 0)
			})
		})
	}
}

// What a handler that panics has done, nobody knows.
func TestPanicLeavesItsKeyInDoubt(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			run(t, idempotency.Policy{}, func(t *testing.T, h *house) {
				h.service.fail = func(context.Context) error { panic("a bug") }
				if got := kind.call(h, t.Context(), "a", "idempotency-key", "k"); status.Code(got.err) != codes.Internal {
					t.Fatalf("%+v", got)
				}
				if got := kind.call(h, t.Context(), "a", "idempotency-key", "k"); got.decision != "idempotency_in_progress" || h.service.calls != 1 {
					t.Errorf("%d calls, %+v", h.service.calls, got)
				}
				h.wants(t, idempotency.Doubted, 1)
			})
		})
	}
}

func TestStoreDown(t *testing.T) {
	for _, kind := range kinds {
		for _, pass := range []bool{false, true} {
			t.Run(fmt.Sprint(kind.name, ", pass ", pass), func(t *testing.T) {
				h := house{policy: idempotency.Policy{Pass: pass}, down: true}
				h.run(t, func(t *testing.T, h *house) {
					got := kind.call(h, t.Context(), "a", "idempotency-key", "k")
					switch {
					case pass && (got.said != kind.said(1, "a") || got.err != nil):
						t.Errorf("%+v", got)
					case !pass && (got.decision != "idempotency_unavailable" || h.service.calls != 0):
						t.Errorf("%d calls, %+v", h.service.calls, got)
					}
				})
			})
		}
	}
}

// An answer is recorded before its status leaves.
func TestRecordedBeforeTheStatus(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			h := house{finish: 300 * time.Millisecond}
			h.run(t, func(t *testing.T, h *house) {
				start := time.Now()
				kind.call(h, t.Context(), "a", "idempotency-key", "k")
				if took := time.Since(start); took != h.finish {
					t.Errorf("it left after %v", took)
				}
			})
		})
	}
}

func TestNoKeeper(t *testing.T) {
	if _, err := grpcidem.Unary(grpcidem.Config{}); err == nil {
		t.Error("no keeper")
	}
	if _, err := grpcidem.Stream(grpcidem.Config{}); err == nil {
		t.Error("no keeper")
	}
}
