package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/comporta/comporta/internal/admin"
	"github.com/comporta/comporta/internal/config"
)

// post sends a request under a key and returns status, whether it was replayed, and
// the body.
func (g *gateway) post(t *testing.T, path, key string, header ...string) (status int, replayed bool, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, g.url+path, strings.NewReader("apple"))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	req.Header.Set("X-Api-Key", "acme-key")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := g.client.Do(req)
	if err != nil {
		return 0, false, err.Error()
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, res.Header.Get("Idempotency-Replayed") == "true", string(b)
}

// orders is a service that counts what it does.
func orders(n *atomic.Int64) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/break" {
			n.Add(1)
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, "order %d", n.Add(1))
	}
}

// An operator's answer to "what became of my order?".
func TestKeysCommand(t *testing.T) {
	var n atomic.Int64
	g := start(t, service(t, orders(&n)), "clients: {names: {acme: afacab35}}\nstore: {engine: memory}\nidempotency: {routes: [other]}")
	if got := g.command(t, 0, "keys"); got != "no key is kept\n" {
		t.Errorf("%s", got)
	}
	if status, replayed, _ := g.post(t, "/orders", "k-1"); status != 201 || replayed {
		t.Fatalf("%d %v", status, replayed)
	}
	g.post(t, "/break", "k-2")
	list := g.command(t, 0, "keys", "list")
	for _, want := range []string{"k-1", "answered 201", "k-2", "running, lease ", "client acme", "POST", "other"} {
		if !strings.Contains(list, want) {
			t.Errorf("no %q in\n%s", want, list)
		}
	}
	if strings.Contains(list, "order 1") {
		t.Errorf("the list tells an answer:\n%s", list)
	}
	if got := g.command(t, 0, "keys", "list", "-state", "finished"); strings.Count(got, "\n") != 1 {
		t.Errorf("%s", got)
	}
	var page admin.Keys
	if _, err := (&admin.Caller{URL: g.admin}).Call(t.Context(), http.MethodGet, "/api/v1/keys?key=k-1", nil, &page); err != nil {
		t.Fatal(err)
	}
	name := page.Keys[0].Name
	for _, which := range []string{"k-1", name, name[:8]} {
		show := g.command(t, 0, "keys", "show", which)
		if !strings.HasPrefix(show, name+"\n") || !strings.Contains(show, "answered 201") || !strings.Contains(show, "7 bytes") || strings.Contains(show, "order 1") {
			t.Errorf("%s:\n%s", which, show)
		}
	}
	if show := g.command(t, 0, "keys", "show", "k-1", "-body"); !strings.Contains(show, `"order 1"`) {
		t.Errorf("%s", show)
	}
	if got := g.command(t, 1, "keys", "show", "nobody"); !strings.Contains(got, `no record is meant by "nobody"`) {
		t.Errorf("%s", got)
	}
	if got := g.command(t, 1, "keys", "release", "k-2"); !strings.Contains(got, "it is believed to run") || !strings.Contains(got, "nothing was released") {
		t.Errorf("%s", got)
	}
	if got := g.command(t, 0, "keys", "release", "k-1", "-yes"); !strings.Contains(got, "k-1 is released: it was carried out and answered 201") {
		t.Errorf("%s", got)
	}
	if status, replayed, body := g.post(t, "/orders", "k-1"); status != 201 || replayed || body != "order 3" {
		t.Errorf("%d %v %s", status, replayed, body)
	}
	g.log.await(t, "audit", nil)
	if log := g.log.String(); !strings.Contains(log, `"what":"keys release"`) || !strings.Contains(log, `"what":"keys body"`) || strings.Contains(log, "order 1") {
		t.Errorf("%s", log)
	}
	for _, args := range []string{"keys", "keys show k-2", "keys release k-2 -yes"} {
		g.command(t, 0, append(strings.Fields(args), "-json")...)
	}
	for _, args := range []string{"keys show", "keys release", "keys forget k-1", "keys show a b"} {
		if got := g.command(t, exitUsage, strings.Fields(args)...); !strings.Contains(got, "show KEY|NAME") {
			t.Errorf("%s: %s", args, got)
		}
	}
	_, metrics := g.get(g.admin + "/metrics")
	for _, want := range []string{`comporta_idempotency_total{outcome="executed"} 3`, `comporta_idempotency_total{outcome="in_doubt"} 1`, `comporta_idempotency_total{outcome="replayed"} 0`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %s", want)
		}
	}
}

func TestKeysCommandWithoutKeys(t *testing.T) {
	g := start(t, service(t, fine), "")
	if got := g.command(t, 1, "keys"); !strings.Contains(got, "idempotency.routes is empty") {
		t.Errorf("%s", got)
	}
}

// A misspelt filter does not pass for an empty list.
func TestKeysCommandTellsWhatThereIsNot(t *testing.T) {
	var n atomic.Int64
	up := service(t, orders(&n))
	g := start(t, up, "routes: [{match: /orders, name: orders}]\nstore: {engine: memory}\nidempotency: {routes: [orders]}")
	g.post(t, "/orders", "k")
	for args, want := range map[string]string{
		"list -route order":   `there is no route "order": the configuration has orders, other`,
		"show k -route order": `there is no route "order"`,
		"list -state done":    "state must be running, lapsed or finished",
	} {
		if got := g.command(t, exitFailed, strings.Fields("keys "+args)...); !strings.Contains(got, want) {
			t.Errorf("%s: %s", args, got)
		}
	}
	g.write(t, up, "store: {engine: memory}\nidempotency: {routes: [other]}")
	if problems := g.reload(t); problems != "" {
		t.Fatal(problems)
	}
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"keys", "list", "-route", "orders", "-admin", g.admin}, &stdout, &stderr); code != exitFine ||
		strings.Count(stdout.String(), "\n") != 1 || stderr.String() != "note: the configuration has no route \"orders\" any more; these are records of before\n" {
		t.Errorf("%d: %s%s", code, &stdout, &stderr)
	}
	stdout.Reset()
	if code := run(t.Context(), []string{"keys", "list", "-route", "orders", "-state", "lapsed", "-admin", g.admin}, &stdout, &stderr); code != exitFine || stdout.String() != "no key matches\n" {
		t.Errorf("%d: %s%s", code, &stdout, &stderr)
	}
	if got := g.command(t, exitFailed, "keys", "show", "other", "-route", "orders"); !strings.Contains(got, `no record is meant by "other"`) {
		t.Errorf("%s", got)
	}
}

// Whoever looks for something is told that it is not there, and not that there is
// nothing.
func TestKeysCommandTellsNoneFromNoMatch(t *testing.T) {
	var n atomic.Int64
	g := start(t, service(t, orders(&n)), "store: {engine: memory}\nidempotency: {routes: [other]}")
	for _, sent := range []bool{false, true} {
		for args, want := range map[string]string{
			"":                "no key is kept\n",
			"list k-2":        "no key matches\n",
			"-state lapsed":   "no key matches\n",
			"-client nobody":  "no key matches\n",
			"list k -limit 1": "no key matches\n",
		} {
			if sent && args == "" {
				continue
			}
			if got := g.command(t, exitFine, append([]string{"keys"}, strings.Fields(args)...)...); got != want {
				t.Errorf("%q: %s", args, got)
			}
		}
		g.post(t, "/orders", "k-1")
	}
}

// What is meant alike is told apart by flags that are not given yet, if any would do.
func TestKeysToldApart(t *testing.T) {
	one := admin.Key{Client: "a", Route: "r", State: "finished", Method: "POST"}
	client, route, state, method := one, one, one, one
	client.Client, route.Route, state.State, method.Method = "b", "s", "lapsed", "PUT"
	const byName = "name one by the hash that stands before it"
	for _, tc := range []struct {
		name string
		k    keyFlags
		keys []admin.Key
		want string
	}{
		{"by the method alone", keyFlags{}, []admin.Key{one, method}, byName},
		{"by the client", keyFlags{}, []admin.Key{one, one, client}, byName + ", or add -client"},
		{"by all", keyFlags{}, []admin.Key{one, client, route, state}, byName + ", or add -client or -route or -state"},
		{"by a prefix of the client, which is given", keyFlags{client: "a"}, []admin.Key{one, client, route}, byName + ", or add -route"},
		{"by nothing else", keyFlags{client: "a", route: "r", state: "finished"}, []admin.Key{one, client, route, state}, byName},
	} {
		if got := tc.k.apart(tc.keys); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}

// The command that is told can be pasted: it asks the same gateway about the same key.
func TestKeysReleaseTellsTheWholeCommand(t *testing.T) {
	var n atomic.Int64
	g := start(t, service(t, orders(&n)), "store: {engine: memory}\nidempotency: {routes: [other]}")
	g.post(t, "/orders", "it's-1")
	token := textFile(t, "token", "0123456789abcdef")
	for _, tc := range []struct{ args, want string }{
		{"", `; comporta keys release 'it'\''s-1' -yes -admin ` + g.admin + " does it\n"},
		{"-route other", `; comporta keys release 'it'\''s-1' -yes -admin ` + g.admin + " -route other does it\n"},
		{"-json -yes=false -token-file " + token, `; comporta keys release 'it'\''s-1' -yes -admin ` + g.admin + " -json -token-file " + token + " does it\n"},
	} {
		if got := g.command(t, exitFailed, append([]string{"keys", "release", "it's-1"}, strings.Fields(tc.args)...)...); !strings.HasSuffix(got, tc.want) {
			t.Errorf("%s: %s", tc.args, got)
		}
	}
}

// Many clients offer h2c on every request; their keys count like those of others.
func TestKeysOfClientsThatOfferHTTP2(t *testing.T) {
	var n atomic.Int64
	g := start(t, service(t, orders(&n)), "store: {engine: memory}\nidempotency: {routes: [other], require: true}")
	for i, header := range [][]string{
		{"Upgrade", "h2c"},
		{"Connection", "Upgrade, HTTP2-Settings", "Upgrade", "h2c", "Http2-Settings", "AAMAAABkAAQAoAAAAAIAAAAA"},
		{"Connection", "Upgrade", "Upgrade", "websocket"},
	} {
		status, replayed, body := g.post(t, "/orders", "k", header...)
		if status != 201 || replayed != (i > 0) || body != "order 1" {
			t.Errorf("%v: %d %v %s", header, status, replayed, body)
		}
		if status, _, body := g.post(t, "/orders", "", header...); status != 400 || !strings.Contains(body, "idempotency_key_missing") {
			t.Errorf("%v: %d %s", header, status, body)
		}
	}
}

// What was done stays done: the next process replays it.
func TestKeysOutliveTheProcess(t *testing.T) {
	var n atomic.Int64
	up := service(t, orders(&n))
	file := filepath.Join(t.TempDir(), "state.db")
	more := "store: {path: " + file + "}\nidempotency: {routes: [other]}"
	first := start(t, up, more)
	_, _, body := first.post(t, "/orders", "k")
	first.stop()
	if err := first.mustEnd(t); err != nil {
		t.Fatal(err)
	}
	second := start(t, up, more)
	if status, replayed, again := second.post(t, "/orders", "k"); status != 201 || !replayed || again != body || n.Load() != 1 {
		t.Errorf("%d %v %s, %d orders", status, replayed, again, n.Load())
	}
	for g, made := range map[*gateway]string{first: "true", second: "false"} {
		if want := `"msg":"store","engine":"sqlite","path":"` + file + `","new":` + made; !strings.Contains(g.log.String(), want) {
			t.Errorf("no %s", want)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// What is full takes no new keys, and goes on to say what it has.
func TestStoreIsBounded(t *testing.T) {
	for name, store := range map[string]string{
		"memory":  "{engine: memory, max_records: 4}",
		"bytes":   "{engine: memory, max_bytes: 1MiB}",
		"sqlite":  "{path: " + filepath.Join(t.TempDir(), "state.db") + ", max_bytes: 1MiB}",
		"default": "{path: " + filepath.Join(t.TempDir(), "default.db") + "}",
	} {
		t.Run(name, func(t *testing.T) {
			g := start(t, service(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 200<<10)) }), "store: "+store+"\nidempotency: {routes: [other]}")
			refused := 0
			for i := range 10 {
				if status, _, body := g.post(t, "/orders", fmt.Sprint("k", i)); status == 503 && strings.Contains(body, "idempotency_unavailable") {
					refused++
				} else if status != 200 || refused > 0 {
					t.Errorf("%d: %d after %d refusals", i, status, refused)
				}
			}
			if full := name != "default"; full != (refused > 2 && refused < 9) || !full && refused > 0 {
				t.Errorf("%d refused", refused)
			}
			if status, replayed, _ := g.post(t, "/orders", "k0"); status != 200 || !replayed {
				t.Errorf("%d %v", status, replayed)
			}
		})
	}
}

// The bounds of the configuration are those of the engines.
func TestBoundsOfTheStoreAreTaken(t *testing.T) {
	for _, env := range []string{
		"COMPORTA_STORE_MAX_BYTES=1MiB", "COMPORTA_STORE_MAX_BYTES=1TiB",
		"COMPORTA_STORE_ENGINE=memory COMPORTA_STORE_MAX_BYTES=1TiB COMPORTA_STORE_MAX_RECORDS=100000000",
		"COMPORTA_STORE_ENGINE=memory COMPORTA_STORE_MAX_BYTES=1MiB COMPORTA_STORE_MAX_RECORDS=1",
	} {
		c, _, err := config.Load(config.Input{Env: strings.Fields(env), WithoutUpstream: true})
		if err == nil {
			_, _, err = engineOf(c)
		}
		if err != nil {
			t.Errorf("%s: %v", env, err)
		}
	}
}

// A reload changes which routes keep keys, and keeps those that are kept; where
// they are kept takes a restart.
func TestKeysAcrossAReload(t *testing.T) {
	var n atomic.Int64
	up := service(t, orders(&n))
	g := start(t, up, "")
	if _, replayed, _ := g.post(t, "/orders", "k"); replayed {
		t.Error("replayed without being asked to")
	}
	g.write(t, up, "store: {engine: memory}\nidempotency: {routes: [other]}")
	if problems := g.reload(t); problems != "" {
		t.Fatal(problems)
	}
	g.post(t, "/orders", "k")
	g.write(t, up, "store: {engine: memory}\nidempotency: {routes: [other], require: true}")
	if problems := g.reload(t); problems != "" {
		t.Fatal(problems)
	}
	if _, replayed, _ := g.post(t, "/orders", "k"); !replayed {
		t.Error("forgotten by a reload")
	}
	g.write(t, up, "store: {path: other.db}\nidempotency: {routes: [other]}")
	if problems := g.reload(t); !strings.Contains(problems, "store") || !strings.Contains(problems, "restart") {
		t.Errorf("%s", problems)
	}
}

// A shared store that is down does not keep the gateway from serving what needs none.
func TestStoreThatIsDownAtTheStart(t *testing.T) {
	var n atomic.Int64
	g := start(t, service(t, orders(&n)), "routes: [{match: /orders, name: orders}]\n"+
		"store: {engine: redis, url: 'redis://:hunter2@127.0.0.1:1'}\nidempotency: {routes: [orders], timeout: 100ms}")
	if status, _, _ := g.post(t, "/free", "k"); status != 201 {
		t.Errorf("a route without keys: %d", status)
	}
	if status, _, body := g.post(t, "/orders", "k"); status != 503 || !strings.Contains(body, "idempotency_unavailable") {
		t.Errorf("%d %s", status, body)
	}
	if got := g.command(t, 1, "keys"); !strings.Contains(got, "the store does not answer") {
		t.Errorf("%s", got)
	}
	if said := g.log.String(); !strings.Contains(said, "the store does not answer; until it does") ||
		!strings.Contains(said, `"engine":"redis","url":"redis://REDACTED@127.0.0.1:1"`) || strings.Contains(said, "hunter2") {
		t.Errorf("%s", said)
	}
}

// What the client of Redis says is a line of the gateway's log, at level debug, also
// where Redis keeps the keys alone.
func TestTheRedisClientSaysItInTheLog(t *testing.T) {
	file := textFile(t, "comporta.yaml", "upstream: {urls: [http://127.0.0.1:1]}\nlisten: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0}\n"+
		"store: {engine: redis, url: 'redis://"+nowhere(t)+"'}\nidempotency: {routes: [other], timeout: 100ms}\n")
	said := newJournal()
	a, err := newApp(file, loaderOf(file), slog.New(slog.NewJSONHandler(said, &slog.HandlerOptions{Level: slog.LevelDebug})), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer a.closeKeys()
	if s := said.String(); !strings.Contains(s, `"level":"DEBUG","msg":"redis client","said":"`) {
		t.Errorf("%s", s)
	}
}

// A store of this gateway's own that cannot be opened is an error at the start.
func TestStoreThatCannotBeOpened(t *testing.T) {
	file := filepath.Join(t.TempDir(), "comporta.yaml")
	text := "upstream: {urls: [http://127.0.0.1:1]}\nlisten: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0}\n" +
		"store: {path: " + filepath.Join(t.TempDir(), "missing", "state.db") + "}\nidempotency: {routes: [other]}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := newApp(file, loaderOf(file), discard(), io.Discard); err == nil || !strings.Contains(err.Error(), "sqlitestore") {
		t.Errorf("%v", err)
	}
}

// A caller who leaves does not end the work: the next one who repeats collects it.
func TestKeysOfCallersWhoLeave(t *testing.T) {
	arrived, leave := make(chan struct{}, 1), make(chan struct{})
	var n atomic.Int64
	g := start(t, service(t, func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		_, _ = io.Copy(io.Discard, r.Body) // else net/http does not look whether its caller is there
		arrived <- struct{}{}
		select {
		case <-leave:
		case <-r.Context().Done():
			t.Error("the work was ended with its caller")
		}
		_, _ = io.WriteString(w, "done")
	}), "store: {engine: memory}\nidempotency: {routes: [other], in_flight: wait}")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+"/slow", strings.NewReader("apple"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Idempotency-Key", "k")
	req.Header.Set("X-Api-Key", "acme-key")
	go func() {
		<-arrived
		cancel()
	}()
	if res, err := g.client.Do(req); err == nil {
		_ = res.Body.Close()
		t.Fatal(res.Status)
	}
	time.AfterFunc(300*time.Millisecond, func() { close(leave) })
	if status, replayed, body := g.post(t, "/slow", "k"); status != 200 || !replayed || body != "done" || n.Load() != 1 {
		t.Errorf("%d %v %s, carried out %d times", status, replayed, body, n.Load())
	}
	g.idle(t)
}

// idle waits until no request is in flight.
func (g *gateway) idle(t *testing.T) {
	t.Helper()
	deadline := time.After(patience)
	for g.status(t).Inflight != 0 {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-deadline:
			t.Fatal("a permit is still held")
		}
	}
}

// At the end of a drain the work for callers who are still there ends, and its keys
// are in doubt, not free.
func TestKeysAtTheEndOfADrain(t *testing.T) {
	arrived := make(chan struct{}, 1)
	up := service(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else net/http does not look whether its caller is there
		arrived <- struct{}{}
		<-r.Context().Done()
	})
	file := filepath.Join(t.TempDir(), "state.db")
	more := "store: {path: " + file + "}\nidempotency: {routes: [other]}\ndrain: {soft: 100ms, hard: 5s}"
	g := start(t, up, more)
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.post(t, "/slow", "k")
	}()
	<-arrived
	began := time.Now()
	g.stop()
	_ = g.mustEnd(t) // that a request was cut off is said, or not
	<-done
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("the drain took %v: the work was not told to end", took)
	}
	next := start(t, up, more)
	if status, _, body := next.post(t, "/slow", "k"); status != 409 || !strings.Contains(body, "idempotency_in_progress") {
		t.Errorf("%d %s", status, body)
	}
}

// Who is known by one cookie has one key whatever the others do, and its value is
// shown to nobody.
func TestKeysOfClientsKnownByACookie(t *testing.T) {
	var n atomic.Int64
	g := start(t, service(t, orders(&n)), "clients: {identify: [{cookie: sid}]}\naccess_log: {format: json}\nstore: {engine: memory}\nidempotency: {on_503: release, routes: [other]}")
	for _, tc := range []struct {
		cookie   string
		replayed bool
	}{
		{"sid=hunter2; _ga=1", false},
		{"sid=hunter2; _ga=2", true},
		{"_ga=3; sid=hunter2; theme=dark", true},
		{"sid=hunter3; _ga=1", false}, // somebody else
		{"_ga=1", false},              // nobody: known by the network and all cookies
		{"_ga=1", true},
		{"_ga=2", false},
		{"sid=hunter2; sid=hunter3", false}, // in doubt, nobody
		{"sid=hunter2; sid=hunter3", true},
	} {
		if status, replayed, body := g.post(t, "/orders", "k-1", "Cookie", tc.cookie); status != 201 || replayed != tc.replayed {
			t.Errorf("%s: %d %s, replayed: %v", tc.cookie, status, body, replayed)
		}
	}
	g.command(t, exitFine, "shed", "add", "-route", "other")
	if status, _, body := g.post(t, "/pay", "k-2", "Cookie", "sid=hunter2", "X-Request-Id", "r-1"); status != http.StatusServiceUnavailable {
		t.Errorf("%d %s", status, body)
	}
	_, metrics := g.get(g.admin + "/metrics")
	said := metrics + g.log.String() + g.access.String()
	for _, args := range []string{"who", "who -json", "explain r-1", "keys list", "keys list -json"} {
		said += g.command(t, exitFine, strings.Fields(args)...)
	}
	if !strings.Contains(said, "r-1") || strings.Contains(said, "hunter") {
		t.Errorf("the value of the cookie is told, or nothing is:\n%s", said)
	}
}
