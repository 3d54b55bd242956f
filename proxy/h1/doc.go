// Package h1 is the client's side of HTTP/1.1 as a proxy needs it: one goroutine
// writes a request, reads the answer, and gives the connection back.
//
// # Basics
//
// A [Pool] keeps the connections to one upstream that nobody uses. What [Pool.Kept]
// and [Pool.Dial] return belongs to the caller until [Conn.Release]:
//
//	c := pool.Kept(now)
//	if c == nil {
//		c, err = pool.Dial(ctx)
//	}
//	c.Begin(now, guard, h1.Patience)
//	head, err := h1.AppendHead(nil, &request)
//	err = c.Ask(append(head, body...), func() {})
//	answer, err := c.ReadHead(request.Method == http.MethodHead)
//	n, err := c.Read(p) // until io.EOF
//	c.Release()
//
// Nothing is sent twice, whatever happens: who gets an error decides. [Conn.Sent]
// tells whether a byte may have left.
//
// # What it believes
//
// An answer whose length can be read in two ways is an error and no answer:
// Content-Length beside Transfer-Encoding, two lengths that differ, a coding other
// than chunked, a folded line, a control character, a chunk whose size is no plain
// hexadecimal number or that does not end where it should. What is accepted is read
// as net/http reads it, which a fuzz test checks. Like net/http it takes a bare line
// feed for the end of a line of the head, since sloppy services are many.
//
// A connection is used again only if the request was sent whole, the answer was read
// to its end, neither side said close, and not a byte came after it. Before it is
// used, the system is asked whether it has died meanwhile.
//
// # Waiting
//
// There is no goroutine and no timer for a connection. A wait is first bounded by
// [Patience]; who still waits then asks the [Guard] how long it may go on. An
// exchange that is quicker, as nearly all are, never looks at a deadline or at a
// context, and most do not even set a timer: what was set for the one before still
// serves.
package h1
