// Package grpcidem carries out unary gRPC calls under an idempotency key once.
//
// # Basics
//
//	once, err := grpcidem.Unary(grpcidem.Config{Keeper: keeper})
//	if err != nil {
//		return err
//	}
//	server := grpc.NewServer(grpc.ChainUnaryInterceptor(authenticate, once))
//
// The key is the metadata idempotency-key. It belongs to its client and method;
// within those another request message is a mismatch. Who repeats gets the first
// answer, its error too, with idempotency-replayed in the header. Put it behind
// what authenticates.
//
// # Caveats
//
// What a handler says by grpc.SetHeader and grpc.SetTrailer is not kept. An answer
// can be said again by a program that knows its message's type, which the one that
// gave it does.
//
// Streams pass untouched: an answer that is a conversation cannot be said again.
package grpcidem
