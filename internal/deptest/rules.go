package deptest

import "slices"

// The reasons that several rows share.
const (
	leaf = "a leaf stands on the standard library and the module's own words, so that it can be used alone " +
		"and read in one sitting; what needs more is an adapter beside it"
	wiring = "only the wiring in cmd/comporta knows every part"
)

// words is what a leaf may import of the module.
var words = []string{"", "internal/hash", "internal/prefetch", "internal/hugepage"}

// Rules is the plan of the house.
var Rules = []Rule{
	{Package: "", Why: "the words of the project depend on nothing"},
	{Package: "internal/hash", Why: "hashing depends on nothing"},
	{Package: "internal/prefetch", Why: "a hint to the processor depends on nothing"},
	{Package: "internal/hugepage", Why: "advice to the system depends on nothing"},
	{Package: "internal/socket", Why: "a call of the system depends on nothing"},
	{Package: "internal/topk", Words: words, Why: leaf},
	{Package: "internal/deptest", Why: "it judges the others"},
	{Package: "internal/target", Why: "reading a path depends on nothing"},
	{Package: "internal/retryafter", Words: words, Why: leaf},
	{Package: "internal/pathpattern", Words: []string{"internal/target"}, Why: "a pattern's literals are kept in the canonical spelling"},
	{Package: "internal/memhttp", Why: "it stands in for the network, below everything"},
	{Package: "internal/relay", Why: "a line that breaks, below everything"},
	{
		Package: "internal/config",
		Words:   []string{"", "gate/...", "proxy", "telemetry"}, Libraries: []string{"go.yaml.in/yaml"},
		Why: "it reads a file into the configurations of the parts, and starts none of them",
	},

	{
		Package: "internal/admin",
		Words:   []string{"", "internal/topk", "internal/config", "gate/...", "store", "telemetry"},
		Why:     "the admin listener shows and moves what the gate has; it knows no library",
	},

	{Package: "gate/keys", Words: words, Why: leaf},
	{Package: "gate/identity", Words: append(slices.Clip(words), "gate/keys"), Why: leaf},
	{
		Package: "gate/identity/jwtidentity",
		Words:   []string{"", "internal/hash", "gate/identity/..."}, Libraries: []string{"github.com/go-jose/go-jose"},
		Why: "the adapter of one library to gate/identity",
	},
	{Package: "gate/repeat", Words: words, Why: leaf},
	{Package: "gate/admission", Words: append(slices.Clip(words), "gate/admission/seek"), Why: leaf},
	{Package: "gate/admission/seek", Words: words, Why: leaf},
	{Package: "gate/calendar", Words: append(slices.Clip(words), "gate/keys"), Why: leaf},
	{
		Package: "gate/idempotency", Words: append(slices.Clip(words), "internal/retryafter", "gate/overload", "store"),
		Why: "the keeping of keys knows the words of its store and those of refusals; engines are opened by its user",
	},
	{
		Package: "gate/idempotency/grpcidem", Words: append(slices.Clip(words), "gate/idempotency", "gate/overload", "store"),
		Libraries: []string{"google.golang.org/grpc", "google.golang.org/protobuf"},
		Why:       "the adapter of one library to gate/idempotency, in the words of refusals",
	},
	{Package: "gate/overload", Words: append(slices.Clip(words), "internal/retryafter"), Why: leaf},
	{
		Package: "gate", Words: []string{"", "internal/hash", "internal/target", "internal/pathpattern", "internal/topk", "gate/...", "store"},
		Why: "the gate's core knows its pieces and no transport, store, metric or file",
	},

	{Package: "client/budget", Words: words, Why: leaf},
	{
		Package: "client/retry", Words: append(slices.Clip(words), "internal/retryafter", "client/budget", "client/internal/...", "breaker", "bulkhead"),
		Why: "the decision to ask again knows what it costs, and no transport but net/http's words",
	},
	{
		Package: "client",
		Words:   append(slices.Clip(words), "internal/retryafter", "client/...", "breaker", "bulkhead"),
		Why:     "the envelope puts its pieces around net/http; it knows no gate, metric or file",
	},

	{Package: "breaker", Words: words, Why: leaf},
	{Package: "bulkhead", Words: words, Why: leaf},
	{Package: "internal/retrypolicy", Words: []string{""}, Why: "the policy document is read by both ends, and knows neither"},
	{
		Package: "client/remote", Words: append(slices.Clip(words), "client/retry", "internal/retrypolicy", "internal/retryafter"),
		Why: "the remote switch hears a document and tells limits; it makes no calls of its client's",
	},
	{
		Package: "client/queue", Words: append(slices.Clip(words), "internal/retryafter", "client/retry", "client/internal/..."),
		Why: "the queue holds and orders; who sends is told by its user",
	},
	{
		Package: "client/grpcclient", Words: append(slices.Clip(words), "client/...", "breaker", "bulkhead", "internal/retryafter"), Libraries: []string{"google.golang.org/grpc", "google.golang.org/protobuf"},
		Why: "the adapter of one library to the envelope",
	},
	{Package: "client/clienttest", Words: []string{""}, Why: "the kit judges any client, so it knows none"},
	{Package: "gate/policydoc", Words: append(slices.Clip(words), "gate/overload", "internal/retrypolicy"), Why: "it publishes a document, in the words of the contract"},
	{Package: "gate/ratelimit", Words: append(slices.Clip(words), "internal/pathpattern", "internal/target"), Why: leaf},
	{
		Package: "gate/ratelimit/redislimit", Words: append(slices.Clip(words), "gate/ratelimit/...", "breaker"), Libraries: []string{"github.com/redis/go-redis"},
		Why: "the adapter of one library to the limiter's store",
	},
	{
		Package: "gate/ratelimit/grpclimit", Words: append(slices.Clip(words), "gate/ratelimit"), Libraries: []string{"google.golang.org/grpc"},
		Why: "the adapter of one library to the limiter",
	},
	{Package: "gate/ratelimit/limittest", Words: append(slices.Clip(words), "gate/ratelimit"), Why: "the suite that every store of the limiter passes"},
	{Package: "store", Why: "the words of durable state depend on nothing; engines stand beside them"},
	{Package: "store/memstore", Words: []string{"store"}, Why: "an engine knows the words of its state, and nobody who uses it"},
	{
		Package: "store/sqlitestore", Words: []string{"store", "store/internal/migration"}, Libraries: []string{"modernc.org/sqlite", "golang.org/x/sys"},
		Why: "the adapter of one library to the words of state; the kernel says what is mounted",
	},
	{
		Package: "store/pgstore", Words: []string{"store", "store/internal/migration"}, Libraries: []string{"github.com/jackc/pgx"},
		Why: "the adapter of one library to the words of state",
	},
	{
		Package: "store/redisstore", Words: []string{"store"}, Libraries: []string{"github.com/redis/go-redis"},
		Why: "the adapter of one library to the words of state",
	},
	{Package: "store/storetest", Words: []string{"store"}, Why: "the suite that every engine passes knows none"},
	{Package: "front", Words: []string{"", "internal/socket"}, Why: "the front turns connections into requests; it knows net/http's words and the reasons, and no gate"},
	{Package: "proxy/h1", Words: []string{"internal/socket"}, Why: "a client of HTTP/1.1 for any proxy depends on no more than its sockets"},
	{Package: "proxy", Words: []string{"", "internal/target", "proxy/h1", "breaker", "bulkhead"}, Why: "the proxy forwards; it is told what to observe and how to refuse"},
	{
		Package: "telemetry",
		Words:   []string{"", "internal/hash", "internal/topk", "gate/...", "store", "client", "client/retry", "breaker", "bulkhead", "front", "proxy"}, Libraries: []string{"github.com/prometheus"},
		Why: "the only package that knows client_golang; it watches front, gate, proxy and client, and no gRPC comes along",
	},
	{Package: "storm", Words: []string{"", "internal/hash"}, Why: "a population asks; it does not know who answers"},
	{Package: "storm/live", Words: []string{"", "internal/hash", "storm"}, Why: "live load is a population on real connections"},
	{
		Package: "storm/sim", Words: append(slices.Clip(words), "storm", "gate/...", "client/..."), Libraries: []string{"go.yaml.in/yaml"},
		Why: "the simulator drives the cores that serve real traffic",
	},
	{Package: "storm/sim/report", Words: append(slices.Clip(words), "storm/..."), Why: "it draws what the simulator found, and simulates nothing"},
	{Package: "cmd/...", Words: []string{"..."}, Libraries: []string{"github.com/prometheus", "go.yaml.in/yaml"}, Why: wiring},
	{Package: "test/...", Words: []string{"..."}, Why: "integration tests speak to the binary"},
	{Package: "examples/...", Words: []string{"..."}, Why: "examples show the module and no library"},
}
