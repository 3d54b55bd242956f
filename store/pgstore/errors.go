package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/comporta/comporta/store"
)

// The errors that a caller may want to tell apart, beside those of package store.
var (
	// ErrUnavailable: the database cannot be reached, or does not answer.
	ErrUnavailable = errors.New("pgstore: not available")
	// ErrNewer: the tables were made by a later version, and were left alone.
	ErrNewer = errors.New("pgstore: made by a later version")
	// ErrDamaged: the tables are there and lack what they had.
	ErrDamaged = errors.New("pgstore: damaged")
)

// remedies say what to do about errors of the server that tell of its state and
// not of a statement, by their SQLSTATE or its first two characters (PostgreSQL's
// Appendix A).
var remedies = map[string]string{
	"08":    "the connection failed",
	"08P01": "behind a pooler in transaction mode add default_query_exec_mode=exec to the URL",
	"25006": "it is a replica: name the primary, or add target_session_attrs=read-write",
	"28":    "check user and password, and pg_hba.conf",
	"3D000": "create the database",
	"42501": "grant this role the right, or open the state once with a role that has it",
	"53300": "raise max_connections, or use fewer connections here",
	"57014": "the statement took too long: look for locks, or raise the timeout",
	"57P":   "the server stops, or starts",
}

func remedy(code string) (string, bool) {
	for length := min(len(code), 5); length > 0; length-- {
		if text, ok := remedies[code[:length]]; ok {
			return text, true
		}
	}
	return "", false
}

// explain says what an error means for who runs the store.
func explain(err error) error {
	var e *pgconn.PgError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrNewer), errors.Is(err, ErrDamaged):
		return err
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("pgstore: %w", err)
	case !errors.As(err, &e): // the connection's, or the deadline's
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	case e.Code == "53100":
		return fmt.Errorf("pgstore: %w: the database's disk is full: make room: %w", store.ErrFull, err)
	}
	if text, ok := remedy(e.Code); ok {
		return fmt.Errorf("%w: %s: %w", ErrUnavailable, text, err)
	}
	return fmt.Errorf("pgstore: %w", err)
}

// dropped reports whether a connection ended under a statement, so that another
// connection may do better.
func dropped(err error) bool {
	var connecting *pgconn.ConnectError
	var e *pgconn.PgError
	switch {
	case errors.As(err, &connecting): // so does the next one
		return false
	case errors.As(err, &e):
		return strings.HasPrefix(e.Code, "57P") || strings.HasPrefix(e.Code, "08")
	}
	return err != nil && !errors.Is(err, pgx.ErrNoRows) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled)
}
