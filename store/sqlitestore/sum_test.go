package sqlitestore

import (
	"bytes"
	"database/sql"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/comporta/comporta/store"
	"github.com/comporta/comporta/store/internal/migration"
)

// Whatever of a record is altered, nobody is answered from it, nobody carries the
// operation out again, and a check tells which record it is.
func TestAlteredRecord(t *testing.T) {
	for change, running := range map[string]bool{
		`body = zeroblob(length(body))`:                      false,
		`body = substr(body, 1, 100)`:                        false,
		`header = x'', body = CAST(header || body AS BLOB)`:  false,
		`status = status + 1`:                                false,
		`omitted = 1`:                                        false,
		`fingerprint = x'00'`:                                false,
		`finished = NULL, lease_until = 0`:                   false,
		`finished = finished + 1`:                            false,
		`expires = 0`:                                        false,
		`fence = fence + 1`:                                  false,
		`finish_sum = NULL`:                                  false,
		`fingerprint = x'01'`:                                true,
		`finished = created, status = 200`:                   true,
		`fingerprint_sum = fingerprint_sum + 1, expires = 0`: true,
	} {
		t.Run(change, func(t *testing.T) {
			path := file(t)
			s := open(t, Config{Path: path})
			h := granted(t, s, "k")
			if !running {
				finish(t, s, h, strings.Repeat("x", 20<<10))
			}
			finish(t, s, granted(t, s, "other"), "made")
			alter(t, s, `UPDATE idempotency SET `+change+` WHERE key = 'k'`)
			refused(t, s, h)
			err := Check(t.Context(), path)
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), h.Name.String()) || strings.Contains(err.Error(), nameOf("other").String()) {
				t.Errorf("check: %v", err)
			}
			if bodyOf(t, s, "other") != "made" {
				t.Error("another record is not answered")
			}
		})
	}
}

// refused wants a damaged record told as one, and left as it is.
func refused(t *testing.T, s *Store, h store.Hold) {
	t.Helper()
	fits := func(err error) bool {
		return errors.Is(err, ErrCorrupt) && strings.Contains(err.Error(), s.place.path) && strings.Contains(err.Error(), "backup")
	}
	for range 2 {
		if r, err := s.Look(t.Context(), time.Now(), h.Name); !fits(err) {
			t.Errorf("look: %+v, %v", r, err)
		}
		c := claimOf("k")
		c.Over = h.Fence
		if got, err := s.Claim(t.Context(), time.Now(), c); !fits(err) {
			t.Errorf("claim: %+v, %v", got, err)
		}
	}
}

// alter changes a file as the disk might, behind the back of who uses it.
func alter(t *testing.T, s *Store, text string) {
	t.Helper()
	db, err := sql.Open("sqlite", s.place.path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if r, err := db.ExecContext(t.Context(), text); err != nil {
		t.Fatal(err)
	} else if n, err := r.RowsAffected(); n != 1 || err != nil {
		t.Fatalf("%d rows, %v", n, err)
	}
}

// Bytes of a page that holds nothing but a piece of a body are overwritten: SQLite
// finds the file sound.
func TestAlteredPage(t *testing.T) {
	path := file(t)
	s := open(t, Config{Path: path})
	h := granted(t, s, "k")
	finish(t, s, h, strings.Repeat("x", 64<<10))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.LastIndex(b, bytes.Repeat([]byte("x"), 4000))
	copy(b[at+100:], "damage")
	write(t, path, string(b), 0o600)
	s = open(t, Config{Path: path})
	if faults, err := faultsOfPages(t.Context(), s.reading); err != nil || len(faults) > 0 {
		t.Fatalf("the test damages more than a body: %v, %v", faults, err)
	}
	refused(t, s, h)
	if err := Check(t.Context(), path); !errors.Is(err, ErrCorrupt) {
		t.Errorf("check: %v", err)
	}
}

// An index that leads to another record answers nobody from that one.
func TestAnotherRecord(t *testing.T) {
	s := open(t, Config{})
	finish(t, s, granted(t, s, "other"), "made")
	wrong, err := s.reading.PrepareContext(t.Context(), `SELECT `+columns+answer+` FROM idempotency WHERE name <> ?`)
	if err != nil {
		t.Fatal(err)
	}
	defer wrong.Close()
	if r, err := find(t.Context(), wrong, nameOf("k")); !errors.Is(explain(s.place.path, err), ErrCorrupt) {
		t.Errorf("%+v, %v", r, err)
	}
}

// A fingerprint that comes with the answer, an empty one too, is summed as it is
// kept, and so is what a takeover claims.
func TestSumsOfFingerprints(t *testing.T) {
	for what, with := range map[string][]byte{"none": nil, "empty": {}, "another": []byte("whole")} {
		t.Run(what, func(t *testing.T) {
			s, now := open(t, Config{}), time.Now()
			first, second := claimOf("k"), claimOf("k")
			first.Fingerprint, second.Fingerprint, second.Over = []byte("begun"), []byte("begun again"), first.Fence
			first.Lease = time.Minute
			for _, c := range []store.Claim{first, second} {
				if got, err := s.Claim(t.Context(), now, c); err != nil || !got.Granted {
					t.Fatalf("%+v, %v", got, err)
				}
				now = now.Add(time.Minute)
			}
			f := answerOf("made")
			f.Fingerprint = with
			for range 2 { // asked again
				if err := s.Finish(t.Context(), now, store.Hold{Name: second.Name, Fence: second.Fence}, f); err != nil {
					t.Fatal(err)
				}
			}
			if bodyOf(t, s, "k") != "made" {
				t.Error("another answer")
			}
			healthy(t, s)
		})
	}
}

// More records than are read at once: each is checked, and the first faults told.
func TestCheckInParts(t *testing.T) {
	s := open(t, Config{})
	err := s.writer.do(t.Context(), 0, func(w *tables) error {
		for i := range 2*chunk + 1 {
			if err := newClaiming(claimOf(keyOf(i)), s.at(time.Now())).run(w); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	healthy(t, s)
	last := keyOf(2 * chunk)
	alter(t, s, `UPDATE idempotency SET fingerprint = x'00' WHERE key = '`+last+`'`)
	if err := Check(t.Context(), s.place.path); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), nameOf(last).String()) {
		t.Errorf("the last one: %v", err)
	}
	alter(t, s, `UPDATE idempotency SET fingerprint = x'00' WHERE seq = 1`)
	if err := Check(t.Context(), s.place.path); err == nil || strings.Count(err.Error(), "not what was written") != 2 {
		t.Errorf("two: %v", err)
	}
}

// A file of the version before is checked as it is, and opened; what it has
// answered is answered again, and what runs is finished.
func TestAFileWithoutSums(t *testing.T) {
	path := file(t)
	write(t, path, "", 0o600)
	steps, err := migration.Steps(migrations, "migrations")
	if err != nil {
		t.Fatal(err)
	}
	conn, leave := otherHands(t, path)
	defer leave()
	if err := migrate(t.Context(), conn, 0, steps[:sumsVersion-1]); err != nil {
		t.Fatal(err)
	}
	done, runs, end := nameOf("done"), nameOf("runs"), time.Now().Add(time.Hour).UnixMicro()
	_, err = conn.ExecContext(t.Context(), `INSERT INTO idempotency
		(name, fence, created, lease_until, expires, finished, client, method, route, key, fingerprint, body) VALUES
		(?1, 1, 1, 1, ?3, 1, '', '', '', 'done', x'01', CAST('made' AS BLOB)), (?2, 1, 1, ?3, ?3, NULL, '', '', '', 'runs', x'02', x'')`, done[:], runs[:], end)
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(t.Context(), path); err != nil {
		t.Error(err)
	}
	s := open(t, Config{Path: path})
	finish(t, s, store.Hold{Name: runs, Fence: 1}, "made later")
	if bodyOf(t, s, "done") != "made" || bodyOf(t, s, "runs") != "made later" {
		t.Error("other answers")
	}
	healthy(t, s)
	alter(t, s, `UPDATE idempotency SET body = CAST('other' AS BLOB) WHERE key = 'runs'`)
	if _, err := s.Look(t.Context(), time.Now(), runs); !errors.Is(err, ErrCorrupt) {
		t.Errorf("%v", err)
	}
}

func BenchmarkSum(b *testing.B) {
	a := answerOf(strings.Repeat("x", 1<<10)).Answer
	b.ReportAllocs()
	for b.Loop() {
		sumOfFinish(store.Hold{}, 1, 2, &a)
	}
}
