package admin

import (
	"strings"
	"testing"
	"time"
)

func TestLevel(t *testing.T) {
	s := newStand(t, "")
	if w := s.ask("GET", "/api/v1/level", ""); strings.TrimSpace(w.Body.String()) != `{"level":"normal","pinned":false}` {
		t.Errorf("got %s", w.Body)
	}
	pinned := decode[LevelStatus](t, s.ask("PUT", "/api/v1/level", `{"level":"attack","ttl_s":600}`), 200)
	if left := time.Until(pinned.Until); pinned.Level != "attack" || !pinned.Pinned || left > 10*time.Minute || left < 9*time.Minute {
		t.Errorf("got %+v", pinned)
	}
	for body, status := range map[string]int{
		`{"level":"panic","ttl_s":1}`:                     422,
		`{"level":"","ttl_s":1}`:                          422,
		`{"level":"busy","ttl_s":0}`:                      422,
		`{"level":"busy","ttl_s":9223372036854775807}`:    422,
		`{"level":2,"ttl_s":1}`:                           400,
		`{"level":"busy","ttl_s":1,"route":"everywhere"}`: 400,
	} {
		if w := s.ask("PUT", "/api/v1/level", body); w.Code != status {
			t.Errorf("%s: %d %s, want %d", body, w.Code, w.Body, status)
		}
	}
	if still := decode[Status](t, s.ask("GET", "/api/v1/status", ""), 200); still.Level != "attack" {
		t.Errorf("what was refused changed something: %s", still.Level)
	}
	if w := s.ask("DELETE", "/api/v1/level", ""); w.Code != 204 {
		t.Errorf("got %d", w.Code)
	}
	if free := decode[LevelStatus](t, s.ask("GET", "/api/v1/level", ""), 200); free.Pinned || free.Level != "normal" {
		t.Errorf("got %+v", free)
	}
	for _, what := range []string{`"what":"level pin"`, `"level":"attack"`, `"level":"(no level)"`, `"what":"level unpin"`} {
		if !strings.Contains(s.log.String(), what) {
			t.Errorf("the audit lacks %s", what)
		}
	}
	if strings.Contains(s.log.String(), `"level":"panic"`) {
		t.Error("what is no level is in the audit")
	}
}
