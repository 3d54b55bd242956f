package policydoc

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/comporta/comporta/gate/overload"
	"github.com/comporta/comporta/internal/retrypolicy"
)

const contract = `{"version":7,"retries_enabled":true,"max_attempts":3,"min_wait_ms":500,"max_wait_ms":8000,"total_ms":20000,` +
	`"budget":{"per_success":0.1,"burst":10},"poll_s":60,"minimum_client_version":"acme-go/2.1.0","routes":{"/orders":{"max_attempts":1}}}`

func write(t testing.TB, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// published returns a handler of a text, and its file.
func published(t testing.TB, text string, origins ...string) (*Handler, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policy.json")
	write(t, file, text)
	h, err := New(Config{File: file, Writer: writer(t, origins...)})
	if err != nil {
		t.Fatal(err)
	}
	return h, file
}

func writer(t testing.TB, origins ...string) *overload.Writer {
	t.Helper()
	w, err := overload.New(overload.Config{CORSOrigins: origins})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// ask sends a request with headers given as name, value, name, value.
func ask(h http.Handler, method string, headers ...string) *http.Response {
	r := httptest.NewRequest(method, Path, http.NoBody)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, resp *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestPublishes(t *testing.T) {
	h, _ := published(t, strings.ReplaceAll(contract, ",", " ,\n  "))
	resp := ask(h, http.MethodGet)
	if resp.StatusCode != 200 || body(t, resp) != contract {
		t.Errorf("status %d", resp.StatusCode)
	}
	for name, want := range map[string]string{
		"Content-Type": "application/json", "Cache-Control": "max-age=60", "X-Content-Type-Options": "nosniff",
		"Access-Control-Allow-Origin": "*",
	} {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if exposed := strings.Join(resp.Header["Access-Control-Expose-Headers"], ", "); !strings.Contains(exposed, "ETag") || !strings.Contains(exposed, "Retry-Policy") {
		t.Errorf("exposed: %q", exposed)
	}
	if h.Version() != 7 {
		t.Errorf("version %d", h.Version())
	}

	head := ask(h, http.MethodHead)
	if got := body(t, head); head.StatusCode != 200 || got != "" || head.Header.Get("Content-Length") != fmt.Sprint(len(contract)) {
		t.Errorf("HEAD: %d, %q, %v", head.StatusCode, got, head.Header)
	}
}

func TestETag(t *testing.T) {
	h, _ := published(t, contract)
	etag := ask(h, http.MethodGet).Header.Get("ETag")
	if len(etag) < 10 || etag[0] != '"' {
		t.Fatalf("ETag %s", etag)
	}
	for given, want := range map[string]int{
		etag: 304, "W/" + etag: 304, `"other", ` + etag: 304, "*": 304,
		`"other"`: 200, strings.Trim(etag, `"`): 200, "": 200, ",,,": 200,
	} {
		resp := ask(h, http.MethodGet, "If-None-Match", given)
		if resp.StatusCode != want {
			t.Errorf("If-None-Match %s: %d, want %d", given, resp.StatusCode, want)
		}
		if resp.Header.Get("ETag") != etag || resp.Header.Get("Cache-Control") == "" {
			t.Errorf("If-None-Match %s: headers %v", given, resp.Header)
		}
	}
}

func TestOtherMethods(t *testing.T) {
	h, _ := published(t, contract)
	resp := ask(h, http.MethodPut)
	if resp.StatusCode != 405 || resp.Header.Get("Comporta-Decision") != "method_not_allowed" || resp.Header.Get("Allow") == "" {
		t.Errorf("PUT: %d, %v", resp.StatusCode, resp.Header)
	}
	resp = ask(h, http.MethodOptions)
	if resp.StatusCode != 405 {
		t.Errorf("OPTIONS that is no preflight: %d", resp.StatusCode)
	}
}

func TestBrowsers(t *testing.T) {
	h, _ := published(t, contract, "https://app.example")
	resp := ask(h, http.MethodOptions, "Origin", "https://app.example",
		"Access-Control-Request-Method", "GET", "Access-Control-Request-Headers", "client-version")
	if resp.StatusCode != 204 || resp.Header.Get("Access-Control-Allow-Origin") != "https://app.example" ||
		!strings.Contains(resp.Header.Get("Access-Control-Allow-Headers"), "Client-Version") {
		t.Errorf("preflight: %d, %v", resp.StatusCode, resp.Header)
	}
	resp = ask(h, http.MethodGet, "Origin", "https://app.example")
	if resp.Header.Get("Access-Control-Allow-Origin") != "https://app.example" || resp.Header.Get("Vary") != "Origin" {
		t.Errorf("listed origin: %v", resp.Header)
	}
}

func TestReload(t *testing.T) {
	h, file := published(t, `{"version":7}`)
	before := ask(h, http.MethodGet).Header.Get("ETag")

	if changed, err := h.Reload(); changed || err != nil {
		t.Errorf("unchanged: %v, %v", changed, err)
	}
	write(t, file, "{\n\"version\": 7 }")
	if changed, err := h.Reload(); changed || err != nil {
		t.Errorf("the same with other spaces: %v, %v", changed, err)
	}
	for text, problem := range map[string]string{
		`{"version":8,"max_attempts":0}`: "policy.json:1:14: max_attempts: ",
		`{"version":6}`:                  "policy.json: version: 6 is below 7",
		`{"version":8,"max_atempts":1}`:  "policy.json:1:14: max_atempts: ",
		``:                               "policy.json:1:1: is no JSON",
	} {
		write(t, file, text)
		changed, err := h.Reload()
		if changed || err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%s: %v, %v, want %q", text, changed, err, problem)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Reload(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
	if got := ask(h, http.MethodGet); got.Header.Get("ETag") != before || h.Version() != 7 {
		t.Error("the old document did not go on")
	}

	write(t, file, `{"version":8,"max_attempts":1}`)
	if changed, err := h.Reload(); !changed || err != nil {
		t.Errorf("a new one: %v, %v", changed, err)
	}
	if got := ask(h, http.MethodGet, "If-None-Match", before); got.StatusCode != 200 || h.Version() != 8 {
		t.Errorf("status %d, version %d", got.StatusCode, h.Version())
	}
}

// A handler that takes another's place does not go back either.
func TestAbove(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.json")
	write(t, file, `{"version":7}`)
	if _, err := New(Config{File: file, Writer: writer(t), Above: 8}); err == nil {
		t.Error("went back from 8 to 7")
	}
	if _, err := New(Config{File: file, Writer: writer(t), Above: 7}); err != nil {
		t.Error(err)
	}
}

func TestNewNamesEveryProblem(t *testing.T) {
	_, err := New(Config{})
	if err == nil || !strings.Contains(err.Error(), "File:") || !strings.Contains(err.Error(), "Writer:") {
		t.Errorf("got %v", err)
	}
	file := filepath.Join(t.TempDir(), "policy.json")
	write(t, file, "{\n\"version\": 0,\n\"poll_s\": 0,\n\"colour\": 1\n}")
	_, err = New(Config{File: file, Writer: writer(t)})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{file + ":2:1: version:", file + ":3:1: poll_s:", file + ":4:1: colour:"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
	write(t, file, `{"version":1}`+strings.Repeat(" ", 1<<20))
	if _, err = New(Config{File: file, Writer: writer(t)}); err == nil {
		t.Error("a document of 1 MiB was accepted")
	}
}

// What is published is what a client can read.
func TestClientsCanRead(t *testing.T) {
	h, _ := published(t, contract)
	doc, err := retrypolicy.Parse([]byte(body(t, ask(h, http.MethodGet))))
	if err != nil || doc.Version != 7 || doc.Attempts() != 3 {
		t.Errorf("%+v, %v", doc, err)
	}
}

func TestReloadWhileServing(t *testing.T) {
	h, file := published(t, `{"version":1}`)
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 100 {
			write(t, file, fmt.Sprintf(`{"version":%d}`, i+2))
			if _, err := h.Reload(); err != nil {
				t.Error(err)
			}
		}
	})
	for range 4 {
		wg.Go(func() {
			for range 200 {
				resp := ask(h, http.MethodGet)
				if resp.StatusCode != 200 || resp.Header.Get("Content-Length") != fmt.Sprint(resp.ContentLength) {
					t.Errorf("%d, %v", resp.StatusCode, resp.Header)
				}
			}
		})
	}
	wg.Wait()
}

func FuzzMatches(f *testing.F) {
	f.Add(`"x", W/"abc"`)
	f.Fuzz(func(t *testing.T, line string) {
		if matches([]string{line}, `"abc"`) && !strings.Contains(line, `"abc"`) && !strings.Contains(line, "*") {
			t.Fatal(line)
		}
	})
}
