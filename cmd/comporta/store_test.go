package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/comporta/comporta/store/sqlitestore"
)

// A state is checked and copied while a gateway has it, and the copy opens.
func TestStoreOfARunningGateway(t *testing.T) {
	dir := t.TempDir()
	path, copied := filepath.Join(dir, "state.db"), filepath.Join(dir, "copy.db")
	s, err := sqlitestore.Open(t.Context(), sqlitestore.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, args := range [][]string{{"check", path}, {"backup", path, copied}, {"check", copied}} {
		var out, complaints strings.Builder
		if code := runStore(t.Context(), args, &out, &complaints); code != exitFine || complaints.Len() > 0 {
			t.Errorf("%v: exit %d, %s", args, code, complaints.String())
		}
	}
	var out, complaints strings.Builder
	if code := runStore(t.Context(), []string{"backup", path, copied}, &out, &complaints); code != exitFailed || !strings.Contains(complaints.String(), "name a new file") {
		t.Errorf("over a backup: exit %d, %s", code, complaints.String())
	}
	link := filepath.Join(dir, "link.db")
	if err := os.Link(path, link); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"check", link}, {"backup", link, filepath.Join(dir, "other.db")}} {
		var out, complaints strings.Builder
		if code := runStore(t.Context(), args, &out, &complaints); code != exitFailed || !strings.Contains(complaints.String(), "hard links to one file: remove the others") {
			t.Errorf("%v: exit %d, %s%s", args, code, out.String(), complaints.String())
		}
	}
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	c, err := sqlitestore.Open(t.Context(), sqlitestore.Config{Path: copied})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// What is no file is told as at the start of a gateway.
func TestStoreThatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	for _, args := range [][]string{{"check", dir}, {"backup", dir, filepath.Join(dir, "copy.db")}} {
		var out, complaints strings.Builder
		if code := runStore(t.Context(), args, &out, &complaints); code != exitFailed || complaints.String() != "comporta store: "+dir+" is no file: name another path\n" {
			t.Errorf("%v: exit %d, %s%s", args, code, out.String(), complaints.String())
		}
	}
}
