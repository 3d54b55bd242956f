// Package grpcidem carries out gRPC calls under an idempotency key once.
//
// # Basics
//
//	c := grpcidem.Config{Keeper: keeper}
//	unary, err := grpcidem.Unary(c)
//	if err != nil {
//		return err
//	}
//	stream, err := grpcidem.Stream(c)
//	if err != nil {
//		return err
//	}
//	server := grpc.NewServer(grpc.ChainUnaryInterceptor(authenticate, unary), grpc.ChainStreamInterceptor(authenticateStream, stream))
//
// Take both: a policy of a streaming method is kept by [Stream] alone.
//
// The key is the metadata idempotency-key. It belongs to its client and method;
// within those another request message is a mismatch. Who repeats gets the first
// answer, all of its messages and its error too, with idempotency-replayed in the
// header and, beside an error, grpc-retry-pushback-ms: -1 in the trailer. Put it
// behind what authenticates.
//
// Who stood by for a call that was refused (UNAVAILABLE, RESOURCE_EXHAUSTED; see
// [idempotency.Policy]) gets that answer with the handler's own pushback, or a second
// if it said none, and comporta-decision: replayed in the trailer.
//
// A method of one request and many answers is kept with all of them. Its handler
// goes on for a caller who has left, within [Config.Linger]; then its context ends, and
// sending fails. The answer is recorded before its status leaves.
//
// # Caveats
//
// What a handler says by grpc.SetHeader and grpc.SetTrailer is not kept, but for the
// pushback of a refusal. They fail once the caller has left; a handler that goes on
// without it takes no notice, or uses the methods of its stream, which do not fail
// then. Neither way is a pushback heard that late.
//
// An answer can be said again by a program that knows its messages' types, which the
// one that gave it does. One above the Keeper's MaxBody, or of something else than
// proto.Message, is known to have been given, and a repeat is told so.
//
// A message that cannot be sent, for its size or its coding, leaves the key in doubt.
//
// A method that takes many requests cannot be kept: what it does depends on a
// conversation, which cannot be repeated as one. Neither can one whose request is
// not registered with protobuf, as that of hand-made descriptions. Calls of such
// methods pass untouched, with a key or without. Where the policy requires
// a key they are refused as UNIMPLEMENTED, key or not: let through, they would seem
// kept. Return no policy for them, as for server reflection.
package grpcidem
