package admin

import (
	"os"
	"path/filepath"
	"testing"
)

func TestReadToken(t *testing.T) {
	name := filepath.Join(t.TempDir(), "token")
	for text, want := range map[string]string{
		"0123456789abcdef":       "0123456789abcdef",
		" 0123456789abcdef \r\n": "0123456789abcdef",
		"":                       "",
		"short":                  "",
		"0123456789abcdef\nmore": "",
		"0123456789 abcdef":      "",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadToken(name); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v", text, got, err)
		}
	}
	if _, err := ReadToken(name + ".absent"); err == nil {
		t.Error("an absent file is read")
	}
}

func TestNewCaller(t *testing.T) {
	for _, base := range []string{"http://127.0.0.1:9900", "http://127.0.0.1:9900/", "https://gate.internal"} {
		if _, err := NewCaller(base, ""); err != nil {
			t.Error(err)
		}
	}
	for _, base := range []string{"", "127.0.0.1:9900", "localhost:9900", "ftp://a", "http://", "http://a b", "\x00"} {
		if c, err := NewCaller(base, ""); err == nil {
			t.Errorf("%q: got %+v", base, c)
		}
	}
	if _, err := NewCaller("http://a", filepath.Join(t.TempDir(), "absent")); err == nil {
		t.Error("an absent token file is passed over")
	}
}
