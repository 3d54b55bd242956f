// Package idempotency keeps the first answer of a key and replays it: the same
// operation once, whoever repeats it.
//
// # Basics
//
// A [Keeper] claims keys in a store that several processes may share, and
// [Keeper.Middleware] puts it in front of a handler:
//
//	k, err := idempotency.New(idempotency.Config{Store: store})
//	if err != nil {
//		return err
//	}
//	go k.Run(ctx) // its owner waits for it
//	once, err := k.Middleware(idempotency.Face{})
//	if err != nil {
//		return err
//	}
//	http.ListenAndServe(":8080", once(service))
//
// What is not HTTP is done once by [Keeper.Do]. In a gateway, package gate puts
// the same pieces into its own order: replay before admission, claim after it.
//
// A key belongs to its client, method and route ([Scope]); within those, another
// path, query or body is a mismatch ([Fingerprint]). A claim has a lease, which the call
// renews while it runs. An answer is recorded before its last byte leaves. A call
// is detached from its caller: who left collects the answer with a repeat.
//
// # Caveats
//
// A call that ends without an answer leaves its key in doubt. Nobody is told that
// it failed or that it succeeded, since nobody knows; see [Policy] for services
// that may be asked again all the same.
//
// An answer is what a client may see of another's if a scope is too wide: give
// [Face.Client] a name that one client cannot take from another.
package idempotency
