// Package retrypolicy reads the client policy: the document that a service
// publishes, and the brief form that rides on its refusals.
//
// # Basics
//
// [Parse] is the reader of a client: it ignores keys that it does not know, since
// a document may be younger than the client, and otherwise takes a document whole
// or not at all. [Check] is the reader of the operator who publishes one: it also
// rejects unknown keys and contradictions, and names every problem with its line.
// [ParseBrief] reads the header Retry-Policy.
//
// # Caveats
//
// The package says what a policy asks for, not what a client makes of it: that a
// policy may only tighten is the business of client/remote.
package retrypolicy
