// Package framing tries requests whose boundaries two readers could see
// differently, on any proxy.
//
// # Basics
//
// Each file *.txt of this folder is a case: bytes to send on a connection of its
// own, and what may come of them. [Cases] reads them all, and a [Trial] plays them
// against an address. With the recording service of this package ([Service]) behind the
// proxy it also judges what arrived there; without it, the answers alone.
//
//	make framing ADDR=127.0.0.1:8080                          answers only
//	make framing ADDR=127.0.0.1:8080 SERVICE=127.0.0.1:9000   the proxy forwards to SERVICE
//
// After the bytes of a case comes, on the same connection, a request that says
// nothing unusual: the probe. Whether it is served tells whether the proxy has
// found the end of what was sent before it. After each case a clean request on a
// connection of its own, the fence, must get its own answer: nothing may be left
// over for others.
//
// # The files
//
// Lines that begin with # are comments. A line `key: value` says one thing; a line
// `key:` is followed by lines of bytes, each after "> " and with the escapes of a Go
// string. No byte is implied: a line's end is written as \r\n. `>*N ` stands for
// N times what follows.
//
//	case      the case's id in the list of the project's hard cases; required
//	about     what the case is, in a sentence; required
//	source    where it comes from
//	send      the bytes; required
//	refuse    the statuses with which the proxy may refuse; `none` is a close without one
//	serve     how the service may see the request: its first line, header fields that
//	          it must have (others may be there), an empty line, the body without framing
//	without   names of fields that must not reach the service, as head or as trailer
//	reply     what the service writes after the head, in place of its usual answer, and
//	          without reading a body
//	answer    the statuses of an answer to a request that was served; 200 unless set
//	then      close, keep or any: what becomes of the connection. Unless set a refusal
//	          closes it and an answer does not
//	fault     head (unless set) or body: where the fault of a refused request lies. If it
//	          lies in the body the service may see the request begin, but never end
//	link      close: the connection to the service must be closed afterwards
//
// At least one of refuse and serve is there; where both are, either is right.
//
// Of each message that reaches the service it is demanded besides that no reader
// can see it otherwise: its lines end in CRLF, its names are tokens, its values hold
// no control characters, it has one Host and at most one length.
package framing
