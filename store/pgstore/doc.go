// Package pgstore keeps state in PostgreSQL, shared by many processes.
//
// # Basics
//
//	s, err := pgstore.Open(ctx, pgstore.Config{URL: "postgres://comporta@db:5432/comporta?sslmode=verify-full"})
//	if err != nil { ... }
//	defer s.Close()
//
// The tables lie in a schema of their own. Open makes them, or brings them up to
// date, under an advisory lock: processes that start together wait for each other.
// A role that may not create anything can open what another one has made.
//
// All instants are the database's. The clocks of the processes play no part.
//
// Each call is one statement, and takes one round trip; a claim that is not
// granted takes two. Concurrent calls use connections of a bounded pool, and
// PostgreSQL lets them share its fsync.
//
// # Caveats
//
// [Store.Health] says what a crash can lose: nothing, unless the server runs with
// fsync or synchronous_commit off, or fails over to a replica that is behind.
//
// A call whose connection broke is asked once more where that changes nothing. An
// error all the same says that it was done or not.
//
// Behind a pooler in transaction mode add default_query_exec_mode=exec to the URL:
// statements are then not prepared, nor is any setting kept in the session. The
// server has no statement_timeout from us then; set one for the role.
//
// When the database's clock is set back, leases and lives last that much longer.
package pgstore
