// Package client puts an envelope around HTTP calls: a client that uses it cannot
// take part in a retry storm.
//
// # Basics
//
//	c, err := client.New(client.Config{Version: "acme-app/2.4.1"})
//	…
//	httpClient := c.HTTP(nil) // or c.Transport(myTransport), as an http.RoundTripper
//	resp, err := httpClient.Do(req)
//
// Calls through it are already repeated: do not repeat them again. A call is
// tried at most four times within twenty seconds in all, with random waits
// between; what the server says (Retry-After, Retry-Ticket, "retryable": false)
// comes first; what is not idempotent is not repeated; and a budget for each
// destination keeps repeats to a tenth of the calls. When the envelope ends the
// operation the last response comes back as it is, readable, with a nil error;
// [Report] tells how it came about. Where there is no response the error is a
// [*retry.Error], which wraps the last fault and carries the same report.
//
// One layer repeats. A client inside a client makes one attempt, and so does
// one that works for a request whose sender repeats: wrap the server's handler in
// [Inbound], and pass the request's context on. Layers that repeat by themselves
// and know nothing of this: net/http (a GET, or a request with an
// Idempotency-Key, on a connection that the server had just closed), OkHttp,
// service meshes. Turn those off, or count them in.
//
// # Caveats
//
// A body without GetBody (a pipe, a file) is sent as it comes and never kept, so
// such a request gets one attempt. http.NewRequest sets GetBody for the readers
// of package bytes and strings.
//
// An attempt may take 60 % of the time that is left, from name look-up to the
// response's head; a request that cannot be repeated once it has a connection may
// take all of it then. After that the body has until Config.Policy.Total, or until
// the caller's context ends if Config.Streaming is set. Read bodies to the end or
// close them, as with net/http.
//
// A failure in JSON is read for its word on repeating, up to 16 KiB and for 100 ms
// at most; the caller gets the whole body all the same. One in a coding that the
// caller asked for (Accept-Encoding) is not looked into.
//
// A redirect that http.Client follows continues the operation: its time, its key,
// its repeats and its report.
//
// The transport below must honour the request's context, as http.Transport does;
// nothing else can interrupt it.
package client
