package grpcclient_test

import (
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/comporta/comporta/client/grpcclient"
	"github.com/comporta/comporta/client/retry"
)

// Once over a real network: everything else runs in memory and virtual time.
func TestLoopback(t *testing.T) {
	answer := code(codes.Unavailable, "grpc-retry-pushback-ms", "1")
	b := &bench{t: t, service: &service{answer: answer}, client: make1(t, grpcclient.Config{Idempotent: always})}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterTestServiceServer(server, b.service)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	defer func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	conn, err := grpc.NewClient(listener.Addr().String(),
		append(b.client.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}()
	b.stub = pb.NewTestServiceClient(conn)
	if _, report, err := b.call(t.Context()); err == nil || report.Attempts != 4 || report.Destination != listener.Addr().String() {
		t.Errorf("%+v %v", report, err)
	}
	var report retry.Report
	stream, err := b.stub.StreamingOutputCall(t.Context(), input("question"), grpcclient.Report(&report))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err == nil || report.Attempts != 4 {
		t.Errorf("%+v %v", report, err)
	}
	b.expect(8)
}
