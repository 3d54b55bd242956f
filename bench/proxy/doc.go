// Proxy measures what a request costs on its way through a proxy: the gateway,
// with its gate and without, and the proxies that people would put there instead.
//
// # Basics
//
//	make bench-proxy
//	go run ./proxy -only 'nginx|comporta' -rounds 3
//
// It needs Linux, two processors, and wrk, nginx, haproxy and taskset, which
// `test/services bench` installs. Caddy is built from bench/rivals.
//
// Every proxy is a process of its own, pinned to one processor. The load (wrk, 64
// connections) and the service behind the proxies share another. Rounds are
// interleaved: each round loads every row for a second, forwards and backwards in
// turns, so that a noisy moment of the machine strikes all. Each request differs
// from all others, and comes from one of a thousand callers.
//
// The figure is CPU-seconds for 100,000 requests, as the kernel accounts them for
// the whole tree of processes of a proxy (CLOCK_PROCESS_CPUTIME_ID of each,
// to the nanosecond): it says how many machines a load will need, and depends
// least on what else the machine does. It is the minimum of the rounds, because
// noise only ever adds; the range says how much it added.
//
// Four tables: GET of 1 KiB, POST of 10 KiB, refusals, and POST of 1 KiB under
// idempotency keys that are kept in a file: no key, a new one each time, and a thousand
// over and over, which are answered from memory. "Whole gate" is
// `comporta serve` with identity, repeats (the house is held half full, so that
// every body is digested), a rate limit, admission and metrics; the access log is
// off. "No gate" is the packages front and proxy, without anything between them. A
// refusal is that of a house that is full: decided, booked, ticketed. nginx and
// net/http answer the same bytes without any decision.
//
// The program closes with one line per target:
//
//	PASS|MISS <name> <figure> (target <bound>)
//
// Its exit status is 1 if a target was missed, 2 if nothing could be measured.
//
// # Caveats
//
// A Go program on one processor spends less on its scheduler than on many: the
// ratios say what the work costs, not how it scales. Latencies are those of a
// closed loop that keeps the proxy busy all the time, so they follow throughput.
// A row that answers anything but what it should ends the program.
package main
