package grpcclient_test

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/comporta/comporta/client/grpcclient"
	"github.com/comporta/comporta/client/retry"
)

// A service that is busy at first, and a client that comes back when it is told.
func Example() {
	listener := bufconn.Listen(1 << 16)
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(grpcclient.InboundUnary), // what the caller says of itself, for calls made for it
		grpc.ChainStreamInterceptor(grpcclient.InboundStream),
	)
	pb.RegisterTestServiceServer(server, &service{answer: func(ctx context.Context, n int) error {
		if n == 1 {
			return grpcclient.Busy(ctx, 20*time.Millisecond, "warming up")
		}
		return nil
	}})
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()

	envelope, err := grpcclient.New(grpcclient.Config{Version: "acme-app/2.4.1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	conn, err := grpc.NewClient("passthrough:///orders", append(envelope.DialOptions(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))...)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = conn.Close() }()

	var report retry.Report
	out, err := pb.NewTestServiceClient(conn).UnaryCall(context.Background(), &pb.SimpleRequest{},
		grpcclient.Idempotent(), grpcclient.Report(&report))
	fmt.Println(out.GetUsername(), status.Code(err), "after", report.Waits)
	// Output: answer 2 OK after [20ms]
}
