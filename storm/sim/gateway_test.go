package sim

import (
	"net/http"
	"slices"
	"testing"

	"github.com/comporta/comporta"
)

// What a visit writes is what the gate would read in the header of such a client.
func TestVisitWritesWhatAHeaderWouldSay(t *testing.T) {
	s := Incident()
	d, _ := DefenceByName("limit")
	e, err := newEngine(&s, &d, 1)
	if err != nil {
		t.Fatal(err)
	}
	isSDK := func(sdk bool) uint8 {
		return uint8(slices.IndexFunc(s.Classes, func(c Class) bool { return c.SDK == sdk }))
	}
	v := newVisit()
	for _, tc := range []struct {
		about  string
		o      operation
		ticket string
		query  string
		header http.Header
	}{
		{"a first attempt", operation{name: 77, user: 40, attempts: 1, class: isSDK(false)}, "", "",
			http.Header{"X-Api-Key": {"14"}, comporta.HeaderIdempotencyKey: {"25"}}},
		{"a repeat by our SDK", operation{name: 77, user: 40, attempts: 3, class: isSDK(true)}, "t", "",
			http.Header{"X-Api-Key": {"14"}, comporta.HeaderIdempotencyKey: {"25"}, comporta.HeaderRetryAttempt: {"2"}, comporta.HeaderRetryTicket: {"t"}}},
		{"a lookup without a credential", operation{name: 1<<64 - 1, user: 1<<32 - 1, attempts: 3, marks: lookup | network}, "", "3w5e11264sgsf",
			http.Header{}},
		{"a lookup with one", operation{name: 1<<64 - 1, user: 1<<32 - 1, attempts: 3, marks: lookup}, "", "3w5e11264sgsf",
			http.Header{"X-Api-Key": {"1z141z3"}}},
	} {
		v.fill(e, &tc.o, tc.ticket)
		var want comporta.Request
		comporta.Signals{}.Read(tc.header, &want)
		if r := &v.r; r.IdempotencyKey != want.IdempotencyKey || r.Attempt != want.Attempt || r.Ticket != want.Ticket || r.Query != tc.query {
			t.Errorf("%s: key %q, attempt %d, ticket %q, query %q, expected %q, %d, %q, %q", tc.about,
				r.IdempotencyKey, r.Attempt, r.Ticket, r.Query, want.IdempotencyKey, want.Attempt, want.Ticket, tc.query)
		}
		if got, want := v.r.Header.Get("X-Api-Key"), tc.header.Get("X-Api-Key"); got != want {
			t.Errorf("%s: credential %q, expected %q", tc.about, got, want)
		}
	}
}
