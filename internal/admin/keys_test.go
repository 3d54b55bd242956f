package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/comporta/comporta/gate"
	"github.com/comporta/comporta/store"
	"github.com/comporta/comporta/store/memstore"
)

type keyHouse struct {
	handler http.Handler
	store   *memstore.Store
	log     bytes.Buffer
}

func newKeyHouse(routes ...string) *keyHouse {
	h := &keyHouse{store: memstore.New(memstore.Config{})}
	c := gate.Config{Admission: gate.Admission{Capacity: 1}}
	for _, name := range routes {
		c.Routes = append(c.Routes, gate.Route{Match: "/" + name, Name: name})
	}
	g, err := gate.New(c, nil)
	if err != nil {
		panic(err) // names that no gate may have
	}
	h.handler = Handler(Config{
		Metrics: metrics{}, Ready: func() bool { return true }, Keys: func() store.Keys { return h.store },
		Gate: func() *gate.Gate { return g },
		Log:  slog.New(slog.NewTextHandler(&h.log, nil)),
	})
	return h
}

func (h *keyHouse) claim(t *testing.T, key string) store.Claim {
	t.Helper()
	c := store.Claim{
		Name: store.Name{key[0]}, Fence: store.NewFence(), Lease: time.Minute, TTL: time.Hour,
		Label: store.Label{Client: "acme", Method: "POST", Route: "orders", Key: key},
	}
	if got, err := h.store.Claim(t.Context(), time.Now(), c); err != nil || !got.Granted {
		t.Fatalf("%+v, %v", got, err)
	}
	return c
}

func (h *keyHouse) finish(t *testing.T, c store.Claim) {
	t.Helper()
	f := store.Finish{TTL: time.Hour, Answer: store.Answer{Status: 201, Header: []byte("Location: /1\r\n"), Body: []byte("secret")}}
	if err := h.store.Finish(t.Context(), time.Now(), store.Hold{Name: c.Name, Fence: c.Fence}, f); err != nil {
		t.Fatal(err)
	}
}

func (h *keyHouse) ask(t *testing.T, method, path string, want int, into any) string {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody)
	r.Host = "127.0.0.1"
	w := httptest.NewRecorder()
	h.handler.ServeHTTP(w, r)
	if w.Code != want {
		t.Fatalf("%s %s: %d %s, want %d", method, path, w.Code, w.Body, want)
	}
	if into != nil {
		if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
			t.Fatal(err)
		}
	}
	return w.Body.String()
}

// A list shows what runs and what was done, and nothing of what was answered.
func TestKeysAreListedWithoutTheirAnswers(t *testing.T) {
	h := newKeyHouse()
	h.finish(t, h.claim(t, "a"))
	h.claim(t, "b")
	var all Keys
	if text := h.ask(t, "GET", "/api/v1/keys", 200, &all); strings.Contains(text, "secret") || strings.Contains(text, "Location") {
		t.Errorf("%s", text)
	}
	if len(all.Keys) != 2 || all.Next != "" {
		t.Fatalf("%+v", all)
	}
	var some Keys
	h.ask(t, "GET", "/api/v1/keys?state=finished&client=acme&route=orders&key=a", 200, &some)
	if len(some.Keys) != 1 || some.Keys[0].Status != 201 || some.Keys[0].BodySize != 6 || some.Keys[0].Key != "a" {
		t.Errorf("%+v", some)
	}
	h.ask(t, "GET", "/api/v1/keys?limit=1", 200, &some)
	if len(some.Keys) != 1 || some.Next == "" {
		t.Errorf("%+v", some)
	}
	for _, bad := range []string{"state=done", "limit=0", "limit=1001", "cursor=x"} {
		h.ask(t, "GET", "/api/v1/keys?"+bad, 400, nil)
	}
}

// A route that is neither in the configuration nor in a record is a mistake, and said
// to be one; one that has gone still has its records.
func TestKeysOfARouteThatThereIsNot(t *testing.T) {
	h := newKeyHouse("refunds", "search")
	h.claim(t, "a") // on the route orders, which has gone
	const names = `the configuration has refunds, search, other`
	var gone, missing Keys
	h.ask(t, "GET", "/api/v1/keys?route=orders", 200, &gone)
	const note = `the configuration has no route "orders" any more; these are records of before`
	if len(gone.Keys) != 1 || gone.Note != note {
		t.Errorf("%+v", gone)
	}
	for _, other := range []string{"state=finished", "client=nobody", "key=b", "state=lapsed&key=a"} {
		var none Keys
		if h.ask(t, "GET", "/api/v1/keys?route=orders&"+other, 200, &none); len(none.Keys) != 0 || none.Note != note {
			t.Errorf("%s: %+v", other, none)
		}
	}
	for _, route := range []string{"refunds", "other"} {
		var none Keys
		if h.ask(t, "GET", "/api/v1/keys?route="+route, 200, &none); len(none.Keys) != 0 || none.Note != "" {
			t.Errorf("%s: %+v", route, none)
		}
	}
	var f Failure
	if h.ask(t, "GET", "/api/v1/keys?route=order", 422, &f); !strings.Contains(f.Error, `there is no route "order": `+names) {
		t.Errorf("%+v", f)
	}
	h.ask(t, "GET", "/api/v1/keys?route=order&key=a&state=running", 422, nil)
	h.claim(t, "b")
	h.ask(t, "GET", "/api/v1/keys?route=orders&limit=1", 200, &gone)
	if h.ask(t, "GET", "/api/v1/keys?limit=1&route=orders&key=c&cursor="+gone.Next, 200, &missing); len(missing.Keys) != 0 || missing.Note == "" {
		t.Errorf("the end of a list is no mistake: %+v", missing)
	}
	var many []string
	for i := range 30 {
		many = append(many, fmt.Sprint("route", i))
	}
	if newKeyHouse(many...).ask(t, "GET", "/api/v1/keys?route=order", 422, &f); !strings.HasSuffix(f.Error, "route19 and 11 more; other is what matches none") {
		t.Errorf("%+v", f)
	}
}

func TestKeyIsShown(t *testing.T) {
	h := newKeyHouse()
	c := h.claim(t, "a")
	h.finish(t, c)
	var d KeyDetail
	if text := h.ask(t, "GET", "/api/v1/keys/"+c.Name.String(), 200, &d); len(d.Body) != 0 || strings.Contains(text, "secret") {
		t.Errorf("%s", text)
	}
	if d.Header["Location"][0] != "/1" || !strings.Contains(d.Risk, "answered 201") {
		t.Errorf("%+v", d)
	}
	if h.ask(t, "GET", "/api/v1/keys/"+c.Name.String()+"?body=true", 200, &d); string(d.Body) != "secret" {
		t.Errorf("%+v", d)
	}
	if log := h.log.String(); !strings.Contains(log, `what="keys body"`) || strings.Contains(log, "secret") {
		t.Errorf("%s", log)
	}
	h.ask(t, "GET", "/api/v1/keys/"+store.Name{9}.String(), 404, nil)
	h.ask(t, "GET", "/api/v1/keys/9", 400, nil)
}

// A release takes what was seen and nothing else, says what it risks, and is
// written down.
func TestKeyIsReleased(t *testing.T) {
	h := newKeyHouse()
	c := h.claim(t, "a")
	var d KeyDetail
	path := "/api/v1/keys/" + c.Name.String()
	h.ask(t, "GET", path, 200, &d)
	h.ask(t, "DELETE", path, 400, nil)
	h.ask(t, "DELETE", path+"?fence=1&state=running", 409, nil)
	h.finish(t, c)
	h.ask(t, "DELETE", path+"?fence="+d.Key.Fence+"&state=running", 409, nil)
	h.ask(t, "GET", path, 200, &d)
	var r Released
	h.ask(t, "DELETE", path+"?fence="+d.Key.Fence+"&state=finished", 200, &r)
	if !strings.Contains(r.Risk, "carried out again") || r.Key.Status != 201 {
		t.Errorf("%+v", r)
	}
	h.ask(t, "DELETE", path+"?fence="+d.Key.Fence+"&state=finished", 404, nil)
	if log := h.log.String(); strings.Count(log, `what="keys release"`) != 5 || !strings.Contains(log, "risk=") {
		t.Errorf("%s", log)
	}
}

func TestNoKeysAreKept(t *testing.T) {
	h := &keyHouse{handler: Handler(Config{Metrics: metrics{}, Ready: func() bool { return true }})}
	for _, c := range []string{"GET /api/v1/keys", "GET /api/v1/keys/x", "DELETE /api/v1/keys/x"} {
		method, path, _ := strings.Cut(c, " ")
		if text := h.ask(t, method, path, 404, nil); !strings.Contains(text, "idempotency.routes is empty") {
			t.Errorf("%s: %s", c, text)
		}
	}
}
