// Package grpcclient puts the envelope of package client around gRPC calls, and
// carries what a call says of its sender through a gRPC server.
//
// # Basics
//
//	c, err := grpcclient.New(grpcclient.Config{Version: "acme-app/2.4.1"})
//	…
//	conn, err := grpc.NewClient(target, append(c.DialOptions(), credentials)...)
//
// Calls over conn are already repeated: do not repeat them again.
// [Client.DialOptions] switches off what grpc-go would repeat by a service
// config, because two layers that repeat multiply.
//
// What is repeated is decided by package retry. UNAVAILABLE, RESOURCE_EXHAUSTED
// and DEADLINE_EXCEEDED may pass. A method may be executed twice if its .proto
// says so (option idempotency_level), if Config.Idempotent or the call option
// [Idempotent] says so, or if the call carries an idempotency-key; of any other
// only what never left this process is repeated, or what the gateway refused in
// the service's place. grpc-retry-pushback-ms is obeyed as gRFC A6 has it: a
// number is waited to the millisecond; anything else, and more than one, is stop.
//
// An error is a [*retry.Error] with its report, and package status reads from it
// exactly what the server said. The call option [Report] has the report of a
// success, too.
//
// On the server's side [InboundUnary] and [InboundStream] are what client.Inbound
// is for HTTP. [Busy] and [Final] tell callers when to come back, or not to.
//
// # Caveats
//
// A stream is repeated until its caller has seen something of it: a message, the
// header or the context. A call with one request message is sent again; of one
// with a stream of requests nothing is kept, so that it is repeated only while
// none was sent. A stream lives as long as its context: Policy.Total bounds only
// how late a repeat may begin.
//
// grpc-go itself repeats what it knows that no server has processed (gRFC A6,
// transparent retries), also with its retries switched off. That is once per
// attempt and cannot be turned off; it is part of one attempt here.
//
// There is no hedging: a second request beside a first one is for HTTP reads.
package grpcclient
