package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/comporta/comporta/gate/idempotency"
	"github.com/comporta/comporta/store"
)

// Key is the record of an idempotency key. Its answer is told by its status and
// size alone.
type Key struct {
	Name        string    `json:"name"` // 64 hexadecimal digits
	Key         string    `json:"key"`
	Client      string    `json:"client"`
	Method      string    `json:"method"`
	Route       string    `json:"route"`
	State       string    `json:"state"` // running, lapsed or finished
	Fence       string    `json:"fence"` // of the claim; a release names it
	Created     time.Time `json:"created"`
	LeaseLeftMs int64     `json:"lease_left_ms,omitempty"`
	Finished    time.Time `json:"finished,omitzero"`
	Expires     time.Time `json:"expires"`
	Status      int       `json:"status,omitempty"`
	BodySize    int       `json:"body_size,omitempty"`
	BodyOmitted bool      `json:"body_omitted,omitempty"` // it was not kept
}

// Keys is the answer of GET /api/v1/keys.
type Keys struct {
	Keys []Key  `json:"keys"`
	Next string `json:"next,omitempty"` // the cursor of the next page; empty: this was the last
	Note string `json:"note,omitempty"` // what is odd about what was asked for, as a route that is not configured
}

// KeyDetail is the answer of GET /api/v1/keys/{name}.
type KeyDetail struct {
	Key    Key                 `json:"key"`
	Header map[string][]string `json:"header,omitempty"` // as it is replayed
	Body   []byte              `json:"body,omitempty"`   // in base64; only where it was asked for
	Risk   string              `json:"risk"`             // of releasing it now
}

// Released is the answer of DELETE /api/v1/keys/{name}.
type Released struct {
	Key  Key    `json:"key"` // as it was
	Risk string `json:"risk"`
}

func keyOf(r *store.Record) Key {
	return Key{
		Name: r.Name.String(), Key: r.Label.Key, Client: r.Label.Client, Method: r.Label.Method, Route: r.Label.Route,
		State: r.State.String(), Fence: strconv.FormatInt(r.Fence, 10), Created: r.Created, LeaseLeftMs: r.LeaseLeft.Milliseconds(),
		Finished: r.Finished, Expires: r.Expires, Status: r.Answer.Status, BodySize: r.BodySize, BodyOmitted: r.Answer.Omitted,
	}
}

// riskOf says what may happen when a key is released.
func riskOf(r *store.Record) string {
	switch r.State {
	case store.Finished:
		return fmt.Sprintf("it was carried out and answered %d: the next request with this key is carried out again", r.Answer.Status)
	case store.Lapsed:
		return "nobody knows whether it was carried out: the next request with this key is carried out, which may be a second time"
	default:
		return "it is believed to run: a request with this key may be carried out beside it"
	}
}

// keeper returns the store of keys; nil, and told: none are kept.
func (a *api) keyStore(w http.ResponseWriter) store.Keys {
	if a.Keys != nil {
		if s := a.Keys(); s != nil {
			return s
		}
	}
	fail(w, http.StatusNotFound, "no idempotency keys are kept: idempotency.routes is empty")
	return nil
}

func (a *api) keys(w http.ResponseWriter, r *http.Request) {
	s := a.keyStore(w)
	if s == nil {
		return
	}
	v := r.URL.Query()
	q := store.Query{Client: v.Get("client"), Route: v.Get("route"), Key: v.Get("key"), Cursor: v.Get("cursor")}
	if text := v.Get("state"); text != "" {
		state, ok := store.ParseState(text)
		if !ok {
			fail(w, http.StatusBadRequest, "state must be running, lapsed or finished")
			return
		}
		q.State = &state
	}
	if text := v.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > store.MaxPage {
			fail(w, http.StatusBadRequest, fmt.Sprintf("limit must be a number within 1 and %d", store.MaxPage))
			return
		}
		q.Limit = n
	}
	page, err := s.List(r.Context(), time.Now(), q)
	if err != nil {
		failStore(w, err)
		return
	}
	keys := Keys{Keys: []Key{}, Next: page.Next}
	if q.Route != "" && !a.Gate().HasRoute(q.Route) {
		// A route that has gone may have records; one that never was has none.
		had, sure, err := hadRoute(r.Context(), s, &q, &page)
		switch {
		case err != nil:
			failStore(w, err)
			return
		case had:
			keys.Note = fmt.Sprintf("the configuration has no route %q any more; these are records of before", q.Route)
		case sure:
			fail(w, http.StatusUnprocessableEntity, a.noRoute(q.Route))
			return
		default:
			keys.Note = a.noRoute(q.Route)
		}
	}
	for i := range page.Records {
		keys.Keys = append(keys.Keys, keyOf(&page.Records[i]))
	}
	reply(w, http.StatusOK, keys)
}

// hadRoute reports whether records of the route of q were found, whose first answer
// is page, and whether that is sure: an engine may end a page before it finds any, and
// what a cursor comes after is not read again.
func hadRoute(ctx context.Context, s store.Keys, q *store.Query, page *store.Page) (had, sure bool, err error) {
	first := *page
	if len(page.Records) == 0 && page.Next == "" && q.Cursor == "" {
		first, err = s.List(ctx, time.Now(), store.Query{Route: q.Route, Limit: 1})
	}
	had = len(first.Records) > 0
	return had, had || first.Next == "" && q.Cursor == "", err
}

// failStore answers when the store does not, or says no.
func failStore(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, store.ErrInvalid):
		fail(w, http.StatusBadRequest, err.Error())
	case errors.Is(err, store.ErrNotFound):
		fail(w, http.StatusNotFound, "no record has this name: its time may be over")
	default:
		fail(w, http.StatusServiceUnavailable, "the store does not answer: "+err.Error())
	}
}

// named reads the name in the path.
func named(w http.ResponseWriter, r *http.Request) (n store.Name, ok bool) {
	n, err := store.ParseName(r.PathValue("name"))
	if err != nil {
		fail(w, http.StatusBadRequest, "a record is named by 64 hexadecimal digits, as GET /api/v1/keys shows them")
	}
	return n, err == nil
}

func (a *api) key(w http.ResponseWriter, r *http.Request) {
	s := a.keyStore(w)
	if s == nil {
		return
	}
	n, ok := named(w, r)
	if !ok {
		return
	}
	record, err := s.Look(r.Context(), time.Now(), n)
	if err != nil {
		failStore(w, err)
		return
	}
	d := KeyDetail{Key: keyOf(&record), Risk: riskOf(&record)}
	if record.State == store.Finished {
		d.Header = idempotency.ParseHeader(record.Answer.Header)
	}
	if r.URL.Query().Get("body") == "true" {
		d.Body = record.Answer.Body
		a.audit(r, "keys body", nil, "name", d.Key.Name, "client", d.Key.Client, "route", d.Key.Route)
	}
	reply(w, http.StatusOK, d)
}

var (
	errChanged = errors.New("the record has changed since it was read: read it again")
	errFence   = errors.New("fence and state must be those of the record, as they were read")
)

// release forgets a record, if it is still what the caller has seen.
func (a *api) release(w http.ResponseWriter, r *http.Request) {
	s := a.keyStore(w)
	if s == nil {
		return
	}
	n, ok := named(w, r)
	if !ok {
		return
	}
	status, released, err := a.releaseKey(r, s, n)
	a.audit(r, "keys release", err, "name", n.String(), "client", released.Key.Client, "route", released.Key.Route,
		"state", released.Key.State, "status", released.Key.Status, "risk", released.Risk)
	switch {
	case status != 0:
		fail(w, status, err.Error())
	case err != nil:
		failStore(w, err)
	default:
		reply(w, http.StatusOK, released)
	}
}

func (a *api) releaseKey(r *http.Request, s store.Keys, n store.Name) (status int, released Released, err error) {
	v := r.URL.Query()
	fence, bad := strconv.ParseInt(v.Get("fence"), 10, 64)
	state, known := store.ParseState(v.Get("state"))
	if bad != nil || !known {
		return http.StatusBadRequest, released, errFence
	}
	record, err := s.Look(r.Context(), time.Now(), n)
	if err != nil {
		return 0, released, err
	}
	released = Released{keyOf(&record), riskOf(&record)}
	if record.Fence != fence || record.State != state {
		return http.StatusConflict, released, errChanged
	}
	err = s.Release(r.Context(), time.Now(), store.Hold{Name: n, Fence: fence}, state == store.Finished)
	if errors.Is(err, store.ErrLost) {
		return http.StatusConflict, released, errChanged
	}
	return 0, released, err
}
