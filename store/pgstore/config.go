package pgstore

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Config says where the state lies. URL is required; every other zero value is a
// default.
type Config struct {
	// URL names the database: postgres://user:password@host:port/database?sslmode=…
	// What it leaves out is taken from the environment (PGHOST, PGPASSWORD, …), as
	// by other programs.
	URL string
	// Schema holds the tables; empty means "comporta". Lower-case letters, digits
	// and underscores.
	Schema string
	// Conns bounds the connections, 1 to 1,000; 0 means 16.
	Conns int
	// Timeout bounds each call, with the wait for a connection, 10 ms to 5 min; 0
	// means 5 s. A statement that takes longer is ended by the server too.
	Timeout time.Duration
}

// What the zero values of Config mean.
const (
	DefaultSchema  = "comporta"
	DefaultConns   = 16
	DefaultTimeout = 5 * time.Second
)

// Bounds of what a configuration may ask for.
const (
	maxConns               = 1000
	minTimeout, maxTimeout = 10 * time.Millisecond, 5 * time.Minute
)

var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

func orDefault[T comparable](v *T, otherwise T) {
	var zero T
	if *v == zero {
		*v = otherwise
	}
}

func (c Config) withDefaults() Config {
	orDefault(&c.Schema, DefaultSchema)
	orDefault(&c.Conns, DefaultConns)
	orDefault(&c.Timeout, DefaultTimeout)
	return c
}

// Check says everything that is wrong with a configuration, without a connection.
// It does not repeat the password.
func (c Config) Check() error {
	c = c.withDefaults()
	var problems []error
	bad := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("pgstore: "+format, args...))
	}
	switch _, err := c.pool(); {
	case !strings.HasPrefix(c.URL, "postgres://") && !strings.HasPrefix(c.URL, "postgresql://"):
		bad("URL: it does not begin with postgres://: write it like postgres://user@host:5432/database?sslmode=verify-full")
	case err != nil:
		bad("URL: %w", err)
	}
	if !schemaName.MatchString(c.Schema) || strings.HasPrefix(c.Schema, "pg_") {
		bad("Schema: %q is no name: use up to 63 lower-case letters, digits and underscores, not with pg_ in front", c.Schema)
	}
	if c.Conns < 1 || c.Conns > maxConns {
		bad("Conns: %d is not within 1 and %d; leave it out for %d", c.Conns, maxConns, DefaultConns)
	}
	if c.Timeout < minTimeout || c.Timeout > maxTimeout {
		bad("Timeout: %v is not within %v and %v; leave it out for %v", c.Timeout, minTimeout, maxTimeout, DefaultTimeout)
	}
	return errors.Join(problems...)
}

// pool is the configuration of the connections.
func (c Config) pool() (*pgxpool.Config, error) {
	p, err := pgxpool.ParseConfig(c.URL)
	if err != nil {
		return nil, err
	}
	p.MaxConns = int32(min(max(c.Conns, 1), maxConns))
	p.MaxConnLifetime, p.MaxConnLifetimeJitter = 30*time.Minute, 5*time.Minute
	p.PingTimeout = c.Timeout
	if p.ConnConfig.ConnectTimeout == 0 || p.ConnConfig.ConnectTimeout > c.Timeout {
		p.ConnConfig.ConnectTimeout = c.Timeout
	}
	settings := p.ConnConfig.RuntimeParams
	if settings["application_name"] == "" {
		settings["application_name"] = "comporta"
	}
	// A pooler hands one session to many clients: it refuses settings, or gives
	// them to strangers.
	if mode := p.ConnConfig.DefaultQueryExecMode; mode != pgx.QueryExecModeExec && mode != pgx.QueryExecModeSimpleProtocol {
		if settings["statement_timeout"] == "" {
			settings["statement_timeout"] = fmt.Sprint(c.Timeout.Milliseconds())
		}
		if settings["idle_in_transaction_session_timeout"] == "" {
			settings["idle_in_transaction_session_timeout"] = fmt.Sprint(2 * c.Timeout.Milliseconds())
		}
	}
	return p, nil
}
