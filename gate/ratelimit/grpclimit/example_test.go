package grpclimit_test

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/comporta/comporta/gate/ratelimit"
	"github.com/comporta/comporta/gate/ratelimit/grpclimit"
)

type orders struct {
	pb.UnimplementedTestServiceServer
}

func (orders) EmptyCall(context.Context, *pb.Empty) (*pb.Empty, error) { return &pb.Empty{}, nil }

// One call a minute for each tenant: the second is told when to come back.
func Example() {
	table, err := ratelimit.NewTable(0)
	if err != nil {
		fmt.Println(err)
		return
	}
	key, err := ratelimit.ParseKey("header:X-Tenant")
	if err != nil {
		fmt.Println(err)
		return
	}
	limiter, err := ratelimit.New(time.Now(), ratelimit.Config{Rules: []ratelimit.Rule{{
		Name: "per-tenant", Key: key, Limit: ratelimit.Limit{Rate: ratelimit.Rate{Count: 1, Per: time.Minute}},
	}}}, table)
	if err != nil {
		fmt.Println(err)
		return
	}
	interceptor, err := grpclimit.New(grpclimit.Config{Limiter: limiter})
	if err != nil {
		fmt.Println(err)
		return
	}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(interceptor.Unary), grpc.ChainStreamInterceptor(interceptor.Stream))
	pb.RegisterTestServiceServer(server, orders{})
	listener := bufconn.Listen(1 << 16)
	go func() { _ = server.Serve(listener) }() // ends with Stop
	defer server.Stop()

	conn, err := grpc.NewClient("passthrough:///orders", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = conn.Close() }()
	ctx := metadata.AppendToOutgoingContext(context.Background(), "x-tenant", "acme")
	for range 2 {
		var trailer metadata.MD
		_, err := pb.NewTestServiceClient(conn).EmptyCall(ctx, &pb.Empty{}, grpc.Trailer(&trailer))
		fmt.Println(status.Code(err), len(trailer.Get("grpc-retry-pushback-ms")))
	}
	// Output:
	// OK 0
	// ResourceExhausted 1
}
