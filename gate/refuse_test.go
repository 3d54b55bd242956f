package gate

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate/overload"
)

// What is refused in front of the gate is counted, named and worded as what the gate
// refuses itself, also where nothing of the request could be read.
func TestRefuse(t *testing.T) {
	g, err := New(Config{Admission: Admission{Capacity: 1}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	unread := &http.Request{Header: http.Header{}, URL: &url.URL{}, RemoteAddr: "192.0.2.7:4711", ProtoMajor: 1}
	read := httptest.NewRequest(http.MethodPost, "/orders", http.NoBody)
	read.Header.Set("X-Request-Id", "mine")
	for _, c := range []struct {
		r    *http.Request
		ref  overload.Refusal
		want []string
	}{
		{unread, overload.Refusal{Reason: comporta.MalformedRequest, Status: 505, Detail: "which version?"}, []string{`"status":505`, `"code":"malformed_request"`, `"detail":"which version?"`, `"request_id":"`}},
		{read, overload.Refusal{Reason: comporta.ConnectionLimit, Status: 503}, []string{`"code":"connection_limit"`, `"retry_after_s":1`, `"request_id":"mine"`}},
	} {
		w := httptest.NewRecorder()
		g.Refuse(w, c.r, &c.ref)
		for _, want := range c.want {
			if !strings.Contains(w.Body.String(), want) {
				t.Errorf("%s is not in %s", want, w.Body)
			}
		}
		if w.Code != c.ref.Status || w.Header().Get("Connection") != "close" {
			t.Error(w.Code, w.Header())
		}
	}
	if got := g.StatsAt(time.Now()).Traffic; got.Requests != 2 || got.Refused != 2 {
		t.Errorf("%+v", got)
	}
}
