package keys

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var (
	lineA = strings.Repeat("a", MinSecret)
	lineB = strings.Repeat("b", MinSecret)
)

func TestParse(t *testing.T) {
	tests := []struct {
		name, text string
		keys       int
		problem    string // part of the error; empty: none
	}{
		{"one", lineA, 1, ""},
		{"two", lineA + "\n" + lineB + "\n", 2, ""},
		{"empty lines", "\n" + lineA + "\n\n\n" + lineB, 2, ""},
		{"characters, not bytes", strings.Repeat("é", MinSecret), 1, ""},
		{"spaces belong to the key", strings.Repeat(" ", MinSecret), 1, ""},
		{"nothing", "", 0, "no key"},
		{"only empty lines", "\n\r\n\n", 0, "no key"},
		{"short", lineA + "\n" + lineB[1:], 0, "line 2: 31 characters, at least 32"},
		{"short in characters", strings.Repeat("é", MinSecret-1), 0, "line 1: 31 characters"},
		{"twice", lineA + "\n\n" + lineA, 0, "line 3: the same key as line 1"},
		{"comment", "# the keys of the gateways in Lisbon\n" + lineA, 0, "line 1: begins with #"},
		{"too long", strings.Repeat("x", MaxFile+1), 0, "more than 65536 bytes"},
		{"too many", many(MaxSecrets + 1), 0, "17 keys, at most 16"},
		{"as many as there may be", many(MaxSecrets), MaxSecrets, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ring, err := Parse([]byte(tt.text))
			if tt.problem != "" {
				if err == nil || !strings.Contains(err.Error(), tt.problem) {
					t.Fatalf("error %v, want one that says %q", err, tt.problem)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if ring.Len() != tt.keys || len(ring.Derive("ticket").Keys) != tt.keys {
				t.Errorf("%d secrets, %d keys, want %d", ring.Len(), len(ring.Derive("ticket").Keys), tt.keys)
			}
			if ring.Ephemeral() {
				t.Error("a ring from a text outlives the process")
			}
		})
	}
}

func many(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "key number %02d %s\n", i, lineA)
	}
	return b.String()
}

// Every problem is said at once, and none gives a secret away.
func TestParse_AllProblems(t *testing.T) {
	_, err := Parse([]byte("hunter2\n" + lineA + "\n# secret\n" + lineA + "\n"))
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"line 1:", "line 3:", "line 4:"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not name %s", err, want)
		}
	}
	for _, secret := range []string{"hunter2", "secret", lineA} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%q repeats a line of the file", err)
		}
	}
}

// The line end is no part of a key: a file edited elsewhere keeps its keys.
func TestParse_LineEnds(t *testing.T) {
	unix, err := Parse([]byte(lineA + "\n" + lineB + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	dos, err := Parse([]byte(lineA + "\r\n" + lineB))
	if err != nil {
		t.Fatal(err)
	}
	for i, k := range unix.Derive("ticket").Keys {
		if k != dos.Derive("ticket").Keys[i] {
			t.Errorf("key %d differs", i)
		}
	}
}

func TestDerive(t *testing.T) {
	ring, err := Parse([]byte(lineA + "\n" + lineB))
	if err != nil {
		t.Fatal(err)
	}
	turned, err := Parse([]byte(lineB + "\n" + lineA))
	if err != nil {
		t.Fatal(err)
	}
	ticket, pass := ring.Derive("ticket"), ring.Derive("pass")
	if again := ring.Derive("ticket"); again.Keys[0] != ticket.Keys[0] || again.Keys[1] != ticket.Keys[1] {
		t.Error("the same purpose gave other keys")
	}
	if other := turned.Derive("ticket"); other.Keys[0] != ticket.Keys[1] || other.Keys[1] != ticket.Keys[0] {
		t.Error("the order of the lines is not the order of the keys")
	}
	seen := map[string]bool{}
	for _, k := range append(ticket.Keys, pass.Keys...) {
		if k.ID == [4]byte{} || k.Secret == [32]byte{} {
			t.Error("a key of zeros")
		}
		if bytes.HasPrefix(k.Secret[:], k.ID[:]) {
			t.Error("the id gives the key away")
		}
		seen[string(k.Secret[:])], seen[string(k.ID[:])] = true, true
	}
	if len(seen) != 8 {
		t.Errorf("%d different ids and keys, want 8", len(seen))
	}
}

// Gateways of different releases share one file: what Derive returns is part of
// the contract between them.
func TestDerive_Frozen(t *testing.T) {
	ring, err := Parse([]byte(lineA))
	if err != nil {
		t.Fatal(err)
	}
	k := ring.Derive("ticket").Keys[0]
	got := hex.EncodeToString(k.ID[:]) + " " + hex.EncodeToString(k.Secret[:])
	const want = "ea553f17 a6feb4b96c9f302f25d06f9f75d644e15777bda867bbb61706371418b76612b8"
	if got != want {
		t.Errorf("derived %s, want %s", got, want)
	}
}

func TestRandom(t *testing.T) {
	a, b := Random(), Random()
	if !a.Ephemeral() || a.Len() != 1 {
		t.Errorf("ephemeral %v, %d secrets", a.Ephemeral(), a.Len())
	}
	if a.Derive("ticket").Keys[0] == b.Derive("ticket").Keys[0] {
		t.Error("two random rings share a key")
	}
	var none Ring
	if len(none.Derive("ticket").Keys) != 0 {
		t.Error("a ring without secrets derived a key")
	}
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v of a missing file does not name it", err)
	}
	if err := os.WriteFile(path, []byte("short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), path+": keys: line 1") {
		t.Errorf("error %v names neither file nor line", err)
	}
	if err := os.WriteFile(path, []byte(lineA+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ring, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if ring.Len() != 1 {
		t.Errorf("%d secrets", ring.Len())
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(lineA + "\n" + lineB))
	f.Add([]byte("# no\r\n\n" + lineA))
	f.Fuzz(func(t *testing.T, text []byte) {
		ring, err := Parse(text)
		if (ring == nil) == (err == nil) {
			t.Fatalf("ring %v, error %v", ring, err)
		}
		if ring != nil && (ring.Len() == 0 || ring.Len() > MaxSecrets) {
			t.Fatalf("%d secrets", ring.Len())
		}
	})
}

func Example() {
	// The new secret signs; what the old one signed is still honoured.
	ring, err := Parse([]byte("new: 7c1b0e6a4f5d49a2b8e3c09d1f62\nold: e5f00a9cd2b14b67a1c8d6320b94\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(ring.Derive("ticket").Keys), "keys")

	_, err = Parse([]byte("secret\n"))
	fmt.Println(err)
	// Output:
	// 2 keys
	// keys: line 1: 6 characters, at least 32 are needed
}
