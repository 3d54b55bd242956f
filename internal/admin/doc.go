// Package admin is the operator's listener: probes, metrics, the levers and the
// answers, and the client of it that the command line uses.
//
// # Basics
//
// [Handler] serves `/api/v1/...` in JSON; docs/openapi.yaml describes it. What
// changes something is audited: from where, by whom as far as its program says
// ([Operator]), what, when, and what came of it.
//
// # Caveats
//
// On loopback there is no token, since whoever is on the machine could read it.
// A browser there is another matter: a page from elsewhere must not pull a lever.
// So the Host must name this machine, which defeats a DNS name that was made to
// point here, and cross-origin writes are refused.
package admin
