// Package config turns comporta.yaml, the environment and flags into one typed
// [Config], or into every problem that stands in the way, at once.
//
// # Basics
//
// [Load] lays four layers over each other, later over earlier: the defaults, the
// file, the environment (COMPORTA_A_B sets a.b) and the flags. Each value
// remembers where it came from: [Config.Render] prints the effective
// configuration with those origins, and a [Problem] points at the line and the
// column, or names the variable or the flag.
//
// The structs are the table of the configuration: a field's tags hold its key,
// default, range and words, its comment says what it means. The reader, the
// environment, the JSON schema (docs/config.schema.json) and the reference
// (docs/configuration.md) are all read from there, so that nothing is said twice.
//
// The tags: key (its name; ",rest" takes the keys that no other field names),
// default (as written in a file), oneof (the words), range (both ends allowed),
// zero (the word that stands for 0), check (a rule of checks.go for text), keys
// (such a rule for the keys of a table), hint (what a problem advises).
//
// # Caveats
//
// A configuration is never half right: an unknown key, or one that belongs to a
// later version, is an error and not a shrug. Files named by the configuration
// are not opened by Load; see [Config.CheckFiles].
//
// A Config shares nothing with the package and may be read by many goroutines.
package config
