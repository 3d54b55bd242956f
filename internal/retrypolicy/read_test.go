package retrypolicy

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/comporta/comporta"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestGolden holds what an author is told about each document.
func TestGolden(t *testing.T) {
	for _, dir := range []string{"good", "bad"} {
		files, err := filepath.Glob(filepath.Join("testdata", dir, "*.json"))
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, file := range files {
			t.Run(dir+"/"+filepath.Base(file), func(t *testing.T) {
				data, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				doc, err := Check(data)
				var got []byte
				if err != nil {
					got = []byte(err.Error() + "\n")
				} else if got, err = json.MarshalIndent(doc, "", "  "); err != nil { //nolint:musttag // the fields' own names
					t.Fatal(err)
				}
				golden(t, file+".golden", got)
				if dir == "good" != (doc != nil) {
					t.Errorf("accepted is %v", doc != nil)
				}
			})
		}
	}
}

func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestParseContract(t *testing.T) {
	data, err := os.ReadFile("testdata/good/contract.json")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	if doc.Version != 7 || doc.Attempts() != 3 || *doc.MinWait != 500*time.Millisecond || *doc.MaxWait != 8*time.Second ||
		*doc.Total != 20*time.Second || *doc.PerSuccess != 0.1 || *doc.Burst != 10 || doc.Poll != time.Minute {
		t.Errorf("%+v", doc)
	}
	if want := (comporta.ClientVersion{Name: "acme-go", Major: 2, Minor: 1}); doc.Minimum != want {
		t.Errorf("minimum %+v", doc.Minimum)
	}
	orders := doc.Routes["/orders"]
	if orders.Attempts() != 1 {
		t.Errorf("routes %+v", doc.Routes)
	}
}

// A document that is younger than the client is read for what the client knows.
func TestParseIsTolerantAndCheckIsNot(t *testing.T) {
	for _, text := range []string{
		`{"version":7,"max_attempts":2,"colour":"blue"}`,
		`{"version":7,"max_attempts":2,"budget":{"per_day":3}}`,
		`{"version":7,"max_attempts":2,"routes":{"GET /orders":{"max_attempts":1}}}`,
		`{"version":7,"max_attempts":2,"min_wait_ms":9000,"max_wait_ms":1}`,
	} {
		doc, err := Parse([]byte(text))
		if err != nil || doc.Attempts() != 2 {
			t.Errorf("Parse(%s): %v", text, err)
		}
		if _, err := Check([]byte(text)); err == nil {
			t.Errorf("Check(%s): accepted", text)
		}
	}
}

// One fault in what is known makes the whole unreadable: half a policy is none.
func TestParseTakesAllOrNothing(t *testing.T) {
	for _, text := range []string{
		`{"version":7,"max_attempts":"1"}`,
		`{"version":7,"max_attempts":0}`,
		`{"version":7,"max_attempts":2,"max_attempts":1}`,
		`{"version":7,"routes":{"/orders":{"max_attempts":-1}}}`,
		`{"version":7,"retries_enabled":null}`,
		`{"version":-7}`,
		`{"version":99999999999999999999999999999999}`,
		`<html>log in to the hotel's network</html>`,
		`{"version":7}` + strings.Repeat(" ", MaxSize),
		`{"version":7,"routes":{` + strings.TrimSuffix(strings.Repeat(`"/a":{},`, MaxRoutes+1), ",") + `}}`,
	} {
		if doc, err := Parse([]byte(text)); err == nil {
			t.Errorf("Parse(%.60s): %+v", text, doc)
		}
	}
}

func TestProblemsHavePlaces(t *testing.T) {
	_, err := Check([]byte("{\"version\": 7,\n  \"routes\": {\n    \"/a\\\"b\": {\"total_ms\": 0}}}"))
	problem, ok := errors.AsType[*DocumentError](err)
	if !ok || problem.Line != 3 || problem.Col != 15 || problem.Key != `routes./a"b.total_ms` {
		t.Errorf("got %#v", problem)
	}
}

func TestRoute(t *testing.T) {
	routes := map[string]int{"": 1, "/orders": 2, "/orders/special": 3}
	for path, want := range map[string]int{
		"/": 1, "": 1, "/other": 1, "/ordersx": 1, "/orders": 2, "/orders/": 2, "/orders/1": 2, "/orders/1/items": 2,
		"/orders/special": 3, "/orders/special/": 3, "/orders/special/x": 3, "/orders/specials": 2, "no slash": 1,
		"/orders/" + strings.Repeat("x/", 5000): 2,
	} {
		if got, ok := Route(routes, path); got != want || !ok {
			t.Errorf("%.40s: %d, want %d", path, got, want)
		}
	}
	delete(routes, "")
	if got, ok := Route(routes, "/other"); ok {
		t.Errorf("uncovered: %d", got)
	}
	if n := testing.AllocsPerRun(100, func() { Route(routes, "/orders/1/items") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestOver(t *testing.T) {
	yes, no, three, ms := true, false, 3, time.Millisecond
	general := Limits{RetriesEnabled: &no, MaxAttempts: &three, MinWait: &ms}
	l := Limits{RetriesEnabled: &yes, Total: &ms}.Over(general)
	if l.Attempts() != 3 || l.MinWait != &ms || l.Total != &ms || l.MaxWait != nil {
		t.Errorf("%+v", l)
	}
	if general.Attempts() != 1 || general.Total != nil {
		t.Error("the general limits were changed")
	}
}

func FuzzParse(f *testing.F) {
	for _, dir := range []string{"good", "bad"} {
		files, _ := filepath.Glob(filepath.Join("testdata", dir, "*.json"))
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := Parse(data)
		strict, strictErr := Check(data)
		if (doc == nil) == (err == nil) || (strict == nil) == (strictErr == nil) {
			t.Fatal("neither a document nor an error, or both")
		}
		if strict != nil && doc == nil {
			t.Fatalf("the author's reader accepts what the client's does not: %v", err)
		}
		if doc == nil {
			return
		}
		if doc.Version < 1 || doc.Poll < 0 || doc.Poll > MaxPoll || len(doc.Routes) > MaxRoutes {
			t.Fatalf("%+v", doc)
		}
		all := []Limits{doc.Limits}
		for _, l := range doc.Routes {
			all = append(all, l)
		}
		for _, l := range all {
			if a := l.Attempts(); a < 0 || a > MaxAttempts {
				t.Fatalf("%d attempts", a)
			}
			for _, d := range []*time.Duration{l.MinWait, l.MaxWait, l.Total} {
				if d != nil && (*d < 0 || *d > MaxWait) {
					t.Fatalf("%v", *d)
				}
			}
		}
	})
}
