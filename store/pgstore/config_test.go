package pgstore

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/comporta/comporta/store"
)

func TestConfigSaysAllProblemsAtOnce(t *testing.T) {
	err := Config{URL: "mysql://u:hunter2@h/db", Schema: "My-Schema", Conns: -1, Timeout: time.Hour}.Check()
	for _, want := range []string{"begin with postgres://", `"My-Schema"`, "Conns: -1", "Timeout: 1h0m0s"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want something with %q", err, want)
		}
	}
	for _, url := range []string{
		"postgres://u:hunter2@h:port/db", "postgres://u:hunter2@h/db?sslmode=perhaps", "postgres://u:hunter2@h/%zz", "host=h password=hunter2", "",
	} {
		if err := (Config{URL: url}).Check(); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, schema := range []string{"pg_x", `a"b`, "1a", strings.Repeat("a", 64)} {
		if err := (Config{URL: "postgres://h/db", Schema: schema}).Check(); err == nil {
			t.Errorf("schema %s is taken", schema)
		}
	}
	if err := (Config{URL: "postgres://u@h:1/db"}).Check(); err != nil {
		t.Error(err)
	}
}

// Behind a pooler nothing is set in the session.
func TestSettingsOfTheSession(t *testing.T) {
	for url, set := range map[string]bool{
		"postgres://h/db": true, "postgres://h/db?default_query_exec_mode=exec": false, "postgres://h/db?default_query_exec_mode=cache_describe": true,
	} {
		c := Config{URL: url}.withDefaults()
		p, err := c.pool()
		if err != nil {
			t.Fatal(err)
		}
		if got := p.ConnConfig.RuntimeParams["statement_timeout"]; (got == "5000") != set {
			t.Errorf("%s: statement_timeout %q", url, got)
		}
	}
	c := Config{URL: "postgres://h/db?statement_timeout=7"}.withDefaults()
	if p, err := c.pool(); err != nil || p.ConnConfig.RuntimeParams["statement_timeout"] != "7" {
		t.Errorf("what the URL says is overridden: %v", err)
	}
}

func TestLoss(t *testing.T) {
	for want, d := range map[string]durability{
		"":                       {fsync: "on", commit: "on"},
		"fsync off":              {fsync: "off", commit: "on"},
		"synchronous_commit off": {fsync: "on", commit: "off"},
		"does not wait":          {fsync: "on", commit: "on", replicas: 2},
		"a failover":             {fsync: "on", commit: "local", synchronous: true, replicas: 1},
	} {
		if got := d.loss(); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%+v: %q, want %q", d, got, want)
		}
	}
	if got := (durability{fsync: "on", commit: "on", synchronous: true, replicas: 2}).loss(); got != "" {
		t.Errorf("a failover to a replica that is waited for: %q", got)
	}
}

func TestExplain(t *testing.T) {
	for _, c := range []struct {
		code, want string
		match      error
	}{
		{"53100", "make room", store.ErrFull},
		{"28P01", "pg_hba.conf", ErrUnavailable},
		{"25006", "primary", ErrUnavailable},
		{"57P01", "stops", ErrUnavailable},
		{"53300", "max_connections", ErrUnavailable},
		{"42501", "right", ErrUnavailable},
	} {
		err := explain(&pgconn.PgError{Code: c.code, Message: "says the server"})
		if !errors.Is(err, c.match) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "says the server") {
			t.Errorf("%s: %v", c.code, err)
		}
	}
	if err := explain(&pgconn.PgError{Code: "22021"}); errors.Is(err, ErrUnavailable) {
		t.Errorf("a fault of the statement: %v", err)
	}
}
