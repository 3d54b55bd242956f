package pathpattern

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/comporta/comporta/internal/target"
)

// The standard mux is the judge, also of how a path is spelled.
func TestMatchesAsTheMuxDoes(t *testing.T) {
	patterns := []string{"/", "/{$}", "/ab", "/%61b", "/a%2fb", "/a/b", "/ü", "/{x}", "/a/{x}/{$}", "/a/{rest...}", "/a/", "/50%25"}
	paths := []string{"/", "/ab", "/a%62", "/a%2Fb", "/a%2fb", "/a/b", "/%C3%BC", "/%c3%bc", "/a/b/", "/a/b/c", "/a/", "/50%25", "/50%2525"}
	for _, pattern := range patterns {
		mux := http.NewServeMux()
		if err := Register(mux, pattern); err != nil {
			t.Fatalf("%s: %v", pattern, err)
		}
		p, err := Parse(pattern)
		if err != nil {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, path := range paths {
			u, err := url.ParseRequestURI(path)
			if err != nil {
				t.Fatal(err)
			}
			canonical, err := target.Canonical(u)
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			_, met := mux.Handler(&http.Request{Method: http.MethodGet, URL: u})
			got, want := p.Matches(canonical), met == pattern
			if want && !got && p.Matches(canonical+"/") {
				continue // the mux answers by a redirect to the path with a slash, which is the service's answer
			}
			if got != want {
				t.Errorf("%s against %s (%s): %v, the mux says %v", pattern, path, canonical, got, want)
			}
		}
	}
}

func TestPatternsThatNoPathMeets(t *testing.T) {
	for _, pattern := range []string{"/%2e%2e", "/a/%2E", "/%00"} {
		if p, err := Parse(pattern); err == nil {
			t.Errorf("%s: read as %+v", pattern, p)
		}
	}
}

func TestRegisterTellsWhatTheMuxSays(t *testing.T) {
	mux := http.NewServeMux()
	for pattern, good := range map[string]bool{"/{x": false, "/{x...}/b": false, "GET": false, "/a": true} {
		if err := Register(mux, pattern); (err == nil) != good {
			t.Errorf("%s: %v", pattern, err)
		}
	}
	if Register(mux, "/a") == nil {
		t.Error("the same pattern twice: accepted")
	}
}

func TestMatchesAllocatesNothing(t *testing.T) {
	p, err := Parse("/orders/{id}/items")
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { p.Matches("/orders/17/items") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
