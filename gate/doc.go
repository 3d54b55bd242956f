// Package gate stands in front of a service: it sees which requests are repeats
// and what became of them, admits originals first when room runs short, and
// tells every refused client its own instant to return.
//
// # Basics
//
// For net/http, compile a [Config] and wrap the service:
//
//	g, err := gate.New(gate.Config{}, nil)
//	if err != nil {
//		return err
//	}
//	http.ListenAndServe(":8080", g.Wrap(service))
//
// The zero Config protects: it learns how many requests at once the service
// sustains, and books instants with a random key.
//
// The core knows no transport. [Gate.Begin] decides on a [comporta.Request], in
// this order: signals of the wire contract, identity, route, slot, version and
// levers, rate rules, sighting, admission. [Decision.Await] stands in the queue;
// [Decision.HeadAt] and [Decision.FinishAt] tell what became of the request.
//
// # Caveats
//
// What outlives a reload is in [State]. Compile the new Gate over the State of
// the old one, or the house is counted twice while both serve.
//
// The ResponseWriter that the service gets has no ReadFrom: bytes are counted to
// give the permit back before the last one leaves. Files are therefore copied,
// not sent by the kernel.
package gate
