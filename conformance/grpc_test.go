package conformance

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/orca"
)

// grpcCommand is the command by which the test binary plays one case: the suite
// ends its process when a case fails.
const grpcCommand = "grpc-case"

type interopCase struct {
	name string
	play func(context.Context, *grpc.ClientConn)
}

// grpcCases are the cases of grpc-go's client that its own server supports. The
// others ask for credentials of Google's cloud, or (pick_first_unary) for a server
// that names itself.
var grpcCases = []interopCase{
	{"empty_unary", with(interop.DoEmptyUnaryCall)},
	{"large_unary", with(interop.DoLargeUnaryCall)},
	{"client_streaming", with(interop.DoClientStreaming)},
	{"server_streaming", with(interop.DoServerStreaming)},
	{"ping_pong", with(interop.DoPingPong)},
	{"empty_stream", with(interop.DoEmptyStream)},
	{"timeout_on_sleeping_server", with(interop.DoTimeoutOnSleepingServer)},
	{"cancel_after_begin", with(interop.DoCancelAfterBegin)},
	{"cancel_after_first_response", with(interop.DoCancelAfterFirstResponse)},
	{"custom_metadata", with(interop.DoCustomMetadata)},
	{"status_code_and_message", with(interop.DoStatusCodeAndMessage)},
	{"special_status_message", with(interop.DoSpecialStatusMessage)},
	{"unimplemented_method", func(ctx context.Context, cc *grpc.ClientConn) { interop.DoUnimplementedMethod(ctx, cc) }},
	{"unimplemented_service", func(ctx context.Context, cc *grpc.ClientConn) {
		interop.DoUnimplementedService(ctx, testgrpc.NewUnimplementedServiceClient(cc))
	}},
	{"rpc_soak", func(ctx context.Context, cc *grpc.ClientConn) {
		soak(ctx, cc.Target(), func() (*grpc.ClientConn, func()) { return cc, func() {} })
	}},
	{"channel_soak", func(ctx context.Context, cc *grpc.ClientConn) {
		soak(ctx, cc.Target(), func() (*grpc.ClientConn, func()) {
			fresh, err := grpc.NewClient(cc.Target(), grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1) //nolint:revive // as the suite does
			}
			return fresh, func() { _ = fresh.Close() }
		})
	}},
	{"orca_per_rpc", func(ctx context.Context, cc *grpc.ClientConn) {
		interop.DoORCAPerRPCTest(ctx, testgrpc.NewTestServiceClient(cc))
	}},
	{"orca_oob", func(ctx context.Context, cc *grpc.ClientConn) {
		interop.DoORCAOOBTest(ctx, testgrpc.NewTestServiceClient(cc))
	}},
}

func with(play func(context.Context, testgrpc.TestServiceClient, ...grpc.CallOption)) func(context.Context, *grpc.ClientConn) {
	return func(ctx context.Context, cc *grpc.ClientConn) { play(ctx, testgrpc.NewTestServiceClient(cc)) }
}

// soak is grpc-go's, with its own sizes.
func soak(ctx context.Context, target string, channel func() (*grpc.ClientConn, func())) {
	interop.DoSoakTest(ctx, interop.SoakTestConfig{
		RequestSize: 271828, ResponseSize: 314159, Iterations: 40, NumWorkers: 4,
		PerIterationMaxAcceptableLatency: 5 * time.Second, OverallTimeout: 15 * time.Second,
		ServerAddr: target, ChannelForTest: channel,
	})
}

// grpcCase plays the case args[1] against the server at args[0].
func grpcCase(args []string) int {
	for _, c := range grpcCases {
		if c.name == args[1] {
			if err := c.against(args[0]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
			return 0
		}
	}
	fmt.Fprintln(os.Stderr, "no such case")
	return 1
}

func (c *interopCase) against(addr string) error {
	options := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	if strings.HasPrefix(c.name, "orca") {
		options = append(options, grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"test_backend_metrics_load_balancer":{}}]}`))
	}
	cc, err := grpc.NewClient(addr, options...)
	if err != nil {
		return err
	}
	defer cc.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	c.play(ctx, cc)
	return nil
}

// interopServer is grpc-go's server of the cases, over h2c.
func interopServer(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	metrics := orca.NewServerMetricsRecorder()
	server := grpc.NewServer(orca.CallMetricsServerOption(metrics))
	if err := orca.Register(server, orca.ServiceOptions{MinReportingInterval: time.Second, ServerMetricsProvider: metrics}); err != nil {
		t.Fatal(err)
	}
	testgrpc.RegisterTestServiceServer(server, interop.NewTestServer(interop.NewTestServerOptions{MetricsRecorder: metrics}))
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// Every case that works without the gateway works through it.
func TestGRPCInterop(t *testing.T) {
	server := interopServer(t)
	g := serve(t, "h2c://"+server, "admission: {capacity: 64}\n")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range grpcCases {
		t.Run(c.name, func(t *testing.T) {
			if out, err := exec.CommandContext(t.Context(), self, grpcCommand, g.addr, c.name).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
				if out, err := exec.CommandContext(t.Context(), self, grpcCommand, server, c.name).CombinedOutput(); err != nil {
					t.Logf("it fails without the gateway too: %v\n%s", err, out)
				}
			}
		})
	}
}
