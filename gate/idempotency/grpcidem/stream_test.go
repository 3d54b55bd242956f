package grpcidem_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/comporta/comporta/gate/idempotency"
)

func note(text string) *pb.StreamingOutputCallResponse {
	return &pb.StreamingOutputCallResponse{Payload: &pb.Payload{Body: []byte(text)}}
}

// count sends a number a second, and takes no notice of what its stream says but by
// what it sends.
func count(n int) func(pb.TestService_StreamingOutputCallServer) error {
	return func(s pb.TestService_StreamingOutputCallServer) error {
		for i := range n {
			if err := s.Send(note(fmt.Sprint(i))); err != nil {
				return err
			}
			time.Sleep(time.Second)
		}
		return nil
	}
}

// A handler that has said a part goes on for a caller who has left, in whatever way,
// and is not told by what it sends or says of its header.
func TestStreamGoesOnWithoutItsCaller(t *testing.T) {
	for name, leave := range map[string]func(h *house, cancel func()){
		"by a cancellation":   func(_ *house, cancel func()) { cancel() },
		"with its connection": func(h *house, _ func()) { _ = h.conn.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			run(t, idempotency.Policy{}, func(t *testing.T, h *house) {
				h.service.stream = func(s pb.TestService_StreamingOutputCallServer) error {
					err := count(5)(s)
					return errors.Join(err, s.SetHeader(metadata.Pairs("a", "b")), s.SendHeader(nil))
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				answers := make(chan answer)
				go func() { answers <- h.stream(ctx, "a", "idempotency-key", "k") }()
				time.Sleep(1500 * time.Millisecond)
				leave(h, cancel)
				if got := <-answers; got.said != "0|1" || got.err == nil {
					t.Fatalf("%+v", got)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				h.wants(t, idempotency.Late, 1)
				h.dial(t)
				if got := h.stream(t.Context(), "a", "idempotency-key", "k"); got.said != "0|1|2|3|4" || got.err != nil || !got.replayed {
					t.Errorf("%+v", got)
				}
			})
		})
	}
}

// One that never ends does so a while after its caller has left, and hears of it by
// what it sends, as without a key.
func TestStreamForNobodyIsBounded(t *testing.T) {
	run(t, idempotency.Policy{}, func(t *testing.T, h *house) {
		sent, err := 0, error(nil)
		h.service.stream = func(s pb.TestService_StreamingOutputCallServer) error {
			for ; err == nil; sent++ {
				err = count(1)(s)
			}
			return err
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10500*time.Millisecond)
		defer cancel()
		h.stream(ctx, "a", "idempotency-key", "k")
		time.Sleep(time.Minute)
		synctest.Wait()
		if seconds := int((10500*time.Millisecond + idempotency.DefaultLinger).Seconds()); sent != seconds+2 || status.Code(err) != codes.Canceled {
			t.Errorf("%d sent, %v", sent, err)
		}
		h.wants(t, idempotency.Doubted, 1)
	})
}

// A message that could not be sent ends the answer, and what was done until then
// nobody knows, whatever status says so.
func TestMessageThatCannotBeSent(t *testing.T) {
	h := house{options: []grpc.ServerOption{grpc.MaxSendMsgSize(100)}}
	h.run(t, func(t *testing.T, h *house) {
		h.service.stream = func(s pb.TestService_StreamingOutputCallServer) error { return s.Send(note(strings.Repeat("x", 200))) }
		if got := h.stream(t.Context(), "a", "idempotency-key", "k"); status.Code(got.err) != codes.ResourceExhausted {
			t.Fatalf("%+v", got)
		}
		if got := h.stream(t.Context(), "a", "idempotency-key", "k"); got.decision != "idempotency_in_progress" || h.service.calls != 1 {
			t.Errorf("%d calls, %+v", h.service.calls, got)
		}
	})
}

// A request that does not arrive claims nothing, and one that does is the handler's
// once.
func TestRequestOfAStream(t *testing.T) {
	run(t, idempotency.Policy{}, func(t *testing.T, h *house) {
		ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), "idempotency-key", "k"), time.Second)
		defer cancel()
		s, err := h.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, pb.TestService_StreamingOutputCall_FullMethodName)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.RecvMsg(new(pb.StreamingOutputCallResponse)); status.Code(err) != codes.DeadlineExceeded {
			t.Fatal(err)
		}
		synctest.Wait()
		h.wants(t, idempotency.Executed, 0)
		h.service.stream = func(s pb.TestService_StreamingOutputCallServer) error {
			return s.Send(note(fmt.Sprint(s.RecvMsg(new(pb.StreamingOutputCallRequest)))))
		}
		if got := h.stream(t.Context(), "a", "idempotency-key", "k"); got.said != io.EOF.Error() {
			t.Errorf("%+v", got)
		}
	})
}

// Calls that cannot be kept are their service's affair, with a key or without. A
// policy that requires a key refuses them: let through, they would seem kept.
func TestCallsThatCannotBeKept(t *testing.T) {
	for name, call := range map[string]func(context.Context, *house) error{
		"of many requests": func(ctx context.Context, h *house) error {
			s, err := h.client.StreamingInputCall(ctx)
			if err != nil {
				return err
			}
			_, err = s.CloseAndRecv()
			return err
		},
		"a conversation": func(ctx context.Context, h *house) error {
			s, err := h.client.FullDuplexCall(ctx)
			if err != nil {
				return err
			}
			for range 2 {
				if err := s.Send(new(pb.StreamingOutputCallRequest)); err != nil && !errors.Is(err, io.EOF) {
					return err
				}
				if _, err := s.Recv(); err != nil {
					return err
				}
			}
			return errors.Join(s.CloseSend(), ended(s.Recv()))
		},
		"of an unknown type": func(ctx context.Context, h *house) error {
			s, err := h.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/test.Unknown/Watch")
			if err != nil {
				return err
			}
			if err := errors.Join(s.SendMsg(new(pb.Payload)), s.CloseSend(), s.RecvMsg(new(pb.Payload))); err != nil {
				return s.RecvMsg(new(pb.Payload))
			}
			return ended(nil, s.RecvMsg(new(pb.Payload)))
		},
	} {
		for _, require := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", required ", require), func(t *testing.T) {
				run(t, idempotency.Policy{Require: require}, func(t *testing.T, h *house) {
					for i, ctx := range []context.Context{
						t.Context(),
						metadata.AppendToOutgoingContext(t.Context(), "idempotency-key", "k"),
						metadata.AppendToOutgoingContext(t.Context(), "idempotency-key", "k"),
					} {
						err := call(ctx, h)
						switch {
						case !require && (err != nil || h.service.calls != i+1):
							t.Errorf("%d: %d calls, %v", i, h.service.calls, err)
						case require && (status.Code(err) != codes.Unimplemented || !strings.Contains(err.Error(), "Config.Policy") || h.service.calls != 0):
							t.Errorf("%d: %d calls, %v", i, h.service.calls, err)
						}
					}
				})
			})
		}
	}
}

// ended is what is wrong with the end of a stream.
func ended(_ any, err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return fmt.Errorf("no end: %w", err)
}
