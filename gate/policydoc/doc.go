// Package policydoc publishes the client policy: the document by which a service
// calms its clients down without a new release of them.
//
// # Basics
//
// A [Handler] answers [Path] from a file, which it has checked when it was
// loaded: what clients could not read is never published. Mount it before
// everything that tells clients apart or sheds them: in an incident this is the
// one document that must get through.
//
// [Handler.Reload] reads the file again, when the configuration is reloaded or
// the file has changed. A file with problems leaves the old document in place.
//
// # Caveats
//
// Clients ignore a document whose version is below the one that they have, so
// Reload refuses to go back. It knows only what this process has published: a
// fleet must be given one file.
package policydoc
