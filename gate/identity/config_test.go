package identity

import (
	"encoding/base64"
	"flag"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/comporta/comporta"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Every problem is reported at once, with its field and what to do.
func TestAllProblemsAtOnce(t *testing.T) {
	_, err := New(Config{
		TrustedProxies: []netip.Prefix{{}, netip.MustParsePrefix("0.0.0.0/0")},
		Identify: []Source{
			{},
			{Kind: KindNetwork},
			{Kind: KindHeader, Header: "X Api Key"},
			{Kind: KindHeader},
			{Kind: KindBasic, Header: "Authorization"},
			{Kind: KindJWT},
			{Kind: KindMTLS, Issuer: "https://issuer.example"},
			{Kind: KindHeader, Header: "A", IPv4: 24},
			{Kind: KindNetwork, IPv4: 33},
			{Kind: KindNetwork, IPv6: -1},
			{Kind: 99},
			{Kind: KindHeader, Header: "proxy-authorization"},
			{Kind: KindHeader, Header: "X_Real_Ip"},
			{Kind: KindHeader, Header: "Comporta-User"},
			{Kind: KindCookie},
			{Kind: KindCookie, Cookie: "sid=sk_live_123"},
			{Kind: KindCookie, Header: "Cookie", Cookie: "sid"},
			{Kind: KindHeader, Header: "X-Api-Key", Cookie: "sid"},
		},
		Names: map[string]string{
			"":        "0011223344",
			"short":   "0011223",
			"long":    strings.Repeat("0", 65),
			"letters": "00112233xx",
			"one":     "aabbccdd",
			"two":     "AABBCCDDEE",
		},
		MinimumVersion: map[string]string{"acme go": "1.0.0", "acme-go": "new"},
	}, nil)
	if err == nil {
		t.Fatal("accepted")
	}
	if strings.Contains(err.Error(), "sk_live") {
		t.Errorf("the problem tells the secret:\n%v", err)
	}
	const file = "testdata/problems.txt"
	if *update {
		if err := os.WriteFile(file, []byte(err.Error()+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, readErr := os.ReadFile(file)
	if readErr != nil {
		t.Fatal(readErr)
	}
	if got := err.Error() + "\n"; got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestTooManyNames(t *testing.T) {
	many := map[string]string{}
	for i := range maxNames + 1 {
		many[KeyString(uint64(i))] = KeyString(uint64(i))
	}
	if _, err := New(Config{Names: many}, nil); err == nil || strings.Count(err.Error(), "\n") != 0 {
		t.Errorf("%v", err)
	}
}

// FuzzBasic: never a panic, never an empty key, and one credential has one key
// however it is spelled.
func FuzzBasic(f *testing.F) {
	for _, s := range []string{"YW5hOnNlY3JldA==", "YW5hOnNlY3JldA", "YW5h", "", "Og==", "YTo=", "%%%", strings.Repeat("YTpi", 200)} {
		f.Add(s)
	}
	id := mustNew(f, Config{Identify: []Source{{Kind: KindBasic}}, Names: map[string]string{"a": "0011223344"}}, nil)
	f.Fuzz(func(t *testing.T, s string) {
		ask := func(v string) comporta.Client { return identify(id, request("192.0.2.1", "Authorization", v)) }
		c, network := ask("Basic "+s), ask("")
		if c.Key == 0 || c.Class != comporta.ClassAnonymous {
			t.Errorf("%q: %+v", s, c)
		}
		plain, err := base64.StdEncoding.DecodeString(s)
		if err != nil || len(s) > maxBasic || strings.TrimSpace(s) != s || len(plain) < 2 || !strings.Contains(string(plain), ":") {
			return
		}
		if c.Key == network.Key {
			t.Errorf("%q counts as absent", s)
		}
		if again := ask(basic(string(plain))); again.Key != c.Key {
			t.Errorf("%q and %q are two identities", s, plain)
		}
	})
}
