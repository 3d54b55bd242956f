// Package seek learns how many requests a service can take at once.
//
// # Basics
//
// A [Limit] watches requests start and finish and moves one number: the
// concurrency that serves the most with the least waiting. The gate reads that
// number before each admission and tells the Limit what became of it:
//
//	limit, err := seek.New(seek.Config{})
//	...
//	if inflight < limit.Limit() {
//		inflight++
//		limit.StartAt(now, inflight)
//		... // the service works
//		inflight--
//		limit.DoneAt(now, inflight, latency, false)
//	} else {
//		limit.RefusedAt(now)
//	}
//
// The principle is: latency suggests, throughput decides. Latency cannot tell
// "my queue" from "their slowness", for both look alike from the outside;
// throughput can, because requests that only wait can be taken away without
// losing any. So:
//
//   - While nothing is refused and the limit is not touched, nothing is changed.
//   - Touched, with latency at its baseline: the limit grows.
//   - Latency far above the baseline: the limit is halved once, as an
//     experiment. If throughput falls with it there was no queue: the limit is
//     restored and the baseline raised. If it does not, the surplus was queue:
//     the limit moves to the knee.
//   - Otherwise the limit is dithered by a tenth up and down, and follows the
//     elasticity of throughput: what one percent of concurrency brings.
//   - When most calls fail to come back at all, the limit halves without
//     further questions until some do.
//
// Evidence is gathered in windows that close when they hold enough samples for
// the variance of the service, so that a service with many cheap and a few
// costly answers is not judged by chance.
//
// Only answers of the service are samples. Successes carry a latency; drops are
// the timeouts of the gateway's own calls to the service, answers of 504, and
// refused connections. The gate's refusals, requests whose caller left, streams
// and all other errors say nothing about capacity and go to [Limit.RefusedAt]
// and [Limit.IgnoreAt].
//
// # Caveats
//
// Nothing here reads the CPU, of the host or of a container. A service that
// sleeps on its database is full at three percent of CPU, and a quota makes the
// host's number meaningless; latency and throughput know first.
//
// Several gateways in front of one service each see their own throughput rise
// with their own concurrency, although the whole is saturated: they take from
// one another. Each would climb. In a fleet [Config].Max must be the service's
// hard bound divided by the replicas.
//
// An Initial or Max far above what a service can take, when that service
// collapses under contention, is not repaired by learning: there is no
// uncollapsed state left to learn from. The default start is small for that
// reason, and doubles within tens of milliseconds when it is touched.
//
// Below ten answers in five seconds windows become long and decisions rare: the
// limit is then nearly a constant. Who knows the pool behind the service
// should write the number down instead of learning it.
//
// The package starts no goroutine and reads no clock. When no event arrives
// nothing moves, and an idle service keeps what it learned.
package seek
