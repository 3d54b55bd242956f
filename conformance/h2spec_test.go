package conformance

import (
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/summerwind/h2spec/config"
	"github.com/summerwind/h2spec/generic"
	"github.com/summerwind/h2spec/hpack"
	"github.com/summerwind/h2spec/http2"
	"github.com/summerwind/h2spec/spec"
)

// known are the tests that net/http's HTTP/2, which the gateway stands on, fails
// too, and why that does no harm.
var known = map[string]string{
	"http2/6.5.3/1": "a SETTINGS frame that says the same thing twice ends the connection: stricter than the standard, " +
		"and no client sends one",
	"http2/8.1.2.2/1": "fields of a connection are refused with a 400, where the suite wants the stream reset; " +
		"an answer is allowed (RFC 9113, 8.1.1), and the service sees neither",
	"http2/8.1.2.2/2": "as before, for TE",
}

// knownClear is known besides, where HTTP/1 is spoken on the same port.
var knownClear = map[string]string{
	"http2/3.5/2": "what is no preface is a request of HTTP/1, and answered with a 400 of HTTP/1",
}

func TestH2SpecClear(t *testing.T) {
	g := serve(t, answering(t), "admission: {capacity: 64}\n")
	expected := maps.Clone(known)
	maps.Copy(expected, knownClear)
	h2spec(t, g.addr, false, expected)
}

func TestH2SpecTLS(t *testing.T) {
	g := serve(t, answering(t), fmt.Sprintf("admission: {capacity: 64}\nlisten: [{addr: \"127.0.0.1:0\", tls: %s}]\n", certificate(t)))
	h2spec(t, g.addr, true, known)
}

// h2spec runs the whole suite, the strict tests included, and holds what failed
// against what is expected to.
func h2spec(t *testing.T, addr string, tls bool, expected map[string]string) {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	c := &config.Config{Host: host, Port: number, Path: "/", Timeout: 2 * time.Second, MaxHeaderLen: 4000, Strict: true, TLS: tls, Insecure: true}
	failed, skipped, all := map[string]string{}, map[string]string{}, 0
	silently(t, func() {
		for _, group := range []*spec.TestGroup{generic.Spec(), http2.Spec(), hpack.Spec()} {
			group.Test(c)
			all += group.PassedCount + group.FailedCount + group.SkippedCount
			collect(group, failed, skipped)
		}
	})
	t.Logf("%d of %d passed, not applicable: %v", all-len(failed)-len(skipped), all, skipped)
	if all != 146 {
		t.Errorf("%d tests ran, want 146", all)
	}
	for _, name := range slices.Sorted(maps.Keys(failed)) {
		if expected[name] == "" {
			t.Errorf("%s: %s", name, failed[name])
			continue
		}
		t.Logf("%s fails as expected: %s", name, expected[name])
	}
	for name := range expected {
		if _, ok := failed[name]; !ok {
			t.Errorf("%s passes: take it off the list", name)
		}
	}
}

// collect gathers what failed in a group and those below it, and what the suite
// left out because of what the server announces.
func collect(g *spec.TestGroup, failed, skipped map[string]string) {
	for i, c := range slices.Concat(g.Tests, g.StrictTests) {
		name := fmt.Sprintf("%s/%d", g.ID(), i+1)
		switch {
		case c.Result == nil:
		case c.Result.Failed:
			failed[name] = fmt.Sprintf("%s: %v", c.Desc, c.Result.Error)
		case c.Result.Skipped:
			skipped[name] = c.Desc
		}
	}
	for _, below := range g.Groups {
		collect(below, failed, skipped)
	}
}

// silently keeps the suite from printing its own report.
func silently(t *testing.T, f func()) {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	stdout := os.Stdout
	os.Stdout = null
	defer func() { os.Stdout = stdout }()
	f()
}
