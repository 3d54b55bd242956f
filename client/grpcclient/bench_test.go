package grpcclient_test

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/comporta/comporta/breaker"
	"github.com/comporta/comporta/bulkhead"
	"github.com/comporta/comporta/client/grpcclient"
)

// What the envelope adds to a call that succeeds, everything on: a few per cent
// of what grpc-go itself costs.
func BenchmarkSuccess(b *testing.B) {
	c := make1(b, grpcclient.Config{
		Version: "acme/1.2.3", AutoKey: true, Breaker: &breaker.Config{}, Bulkhead: &bulkhead.Config{Limit: 100},
	})
	conn, err := grpc.NewClient("passthrough:///orders", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	invoke := func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return nil }
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Unary(b.Context(), "/orders.Orders/Get", nil, nil, conn, invoke); err != nil {
			b.Fatal(err)
		}
	}
}
