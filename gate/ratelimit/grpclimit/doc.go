// Package grpclimit puts rate rules in front of a gRPC server, as
// ratelimit.Middleware puts them in front of an http.Handler.
//
// # Basics
//
//	i, err := grpclimit.New(grpclimit.Config{Limiter: limiter})
//	…
//	server := grpc.NewServer(grpc.ChainUnaryInterceptor(i.Unary), grpc.ChainStreamInterceptor(i.Stream))
//
// A rule sees a call as the request that it is: POST, the full name of its method
// as the path, the authority as the host, its metadata as headers. So a rule for
// one service has the path "/shop.Orders/", and one for a method
// "/shop.Orders/Create".
//
// A call that may pass has RateLimit and RateLimit-Policy in its header, and its
// handler finds the verdict with ratelimit.FromContext. Any other is answered by
// a status alone (Trailers-Only): RESOURCE_EXHAUSTED, or UNAVAILABLE when a closed
// rule's store is away, with grpc-retry-pushback-ms (gRFC A6): the exact wait, or
// -1 when coming back does not help.
//
// # Caveats
//
// A stream is charged once, when it begins; Limiter.ChargeAt charges more.
//
// Interceptors that set a header before this one make the answer of a refused call
// one with a header, after which a client of grpc-go does not repeat it. Let this
// one be the first.
//
// By default the client is the TCP peer, since everything else can be written by
// anybody. Config.Describe replaces that.
package grpclimit
