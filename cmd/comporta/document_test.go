package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The policy document is answered before the gate, follows its file within a
// second without a reload, and survives a bad edit.
func TestPolicyDocument(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.json")
	edit := func(text string) {
		t.Helper()
		if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	edit(`{"version": 1, "max_attempts": 3}`)
	const path = "/.well-known/retry-policy"
	asked := make(chan string, 100)
	upstream := service(t, func(_ http.ResponseWriter, r *http.Request) { asked <- r.URL.Path })
	g := start(t, upstream, "retry_policy: {file: "+file+"}\nadmission: {capacity: 1}")
	g.mustServe(t)
	if status, body := g.get(g.url + path); status != http.StatusOK || !strings.Contains(body, `"max_attempts":3`) {
		t.Fatalf("%d %s", status, body)
	}
	edit(`{"version": 2, "max_attempts": 1}`)
	var published struct{ Version uint64 }
	g.log.await(t, "policy document published", &published)
	if _, body := g.get(g.url + path); published.Version != 2 || !strings.Contains(body, `"max_attempts":1`) {
		t.Errorf("after the edit: version %d, %s", published.Version, body)
	}
	edit(`{"version": 1}`)
	var refused struct{ Error string }
	g.log.await(t, "the policy document has problems, the old one stays", &refused)
	if _, body := g.get(g.url + path); !strings.Contains(body, `"version":2`) {
		t.Errorf("after a bad edit: %s", body)
	}
	if err := g.app.reload(); err == nil {
		t.Error("a reload took a document that goes back")
	}
	edit(`{"version": 3, "max_attempts": 2}`)
	if err := g.app.reload(); err != nil {
		t.Error(err)
	}
	if _, body := g.get(g.url + path); !strings.Contains(body, `"version":3`) {
		t.Errorf("after a reload: %s", body)
	}
	for len(asked) > 0 {
		if p := <-asked; p == path {
			t.Error("the service was asked for the policy document")
		}
	}
}
