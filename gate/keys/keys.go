package keys

import (
	"bytes"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf8"
)

const (
	// MinSecret is the length of the shortest secret, in characters.
	MinSecret = 32
	// MaxSecrets is how many secrets a ring may hold. Verification tries those
	// whose id fits, so the bound is for the reader of the file, not for speed.
	MaxSecrets = 16
	// MaxFile is the length of the longest key file, in bytes.
	MaxFile = 64 << 10
)

// Ring is an ordered set of secrets. The zero value holds none, and derives none.
// A Ring never changes after it was made, so it may be used from many goroutines.
type Ring struct {
	extracts  [][]byte // the secrets after HKDF-Extract: the text itself is not kept
	ephemeral bool
}

// Random returns a ring with one secret that ends with the process.
func Random() *Ring {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // documented never to fail: it ends the process instead
	ring := &Ring{ephemeral: true}
	if extract, err := hkdf.Extract(sha256.New, secret, nil); err == nil { // fails for secrets under 14 bytes only
		ring.extracts = [][]byte{extract}
	}
	return ring
}

// Load reads a key file; see [Parse]. Errors name the file.
func Load(path string) (*Ring, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	ring, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return ring, nil
}

// Parse reads secrets, one a line: any text of at least [MinSecret] characters,
// taken byte for byte without its line end (LF or CRLF). Empty lines are passed
// over. A line that begins with # is an error and not a comment: taken as a
// comment it might be somebody's key, and taken as a key it might be a sentence
// that everybody can guess. All problems are returned joined, each with its line;
// none of them repeats the text of a secret.
func Parse(text []byte) (*Ring, error) {
	if len(text) > MaxFile {
		return nil, fmt.Errorf("keys: more than %d bytes; a key file holds one key a line", MaxFile)
	}
	var problems []error
	ring := &Ring{}
	seen := map[string]int{}
	number := 0
	for line := range bytes.Lines(text) {
		number++
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		if len(line) == 0 {
			continue
		}
		if err := checkSecret(line, seen[string(line)]); err != nil {
			problems = append(problems, fmt.Errorf("keys: line %d: %w", number, err))
			continue
		}
		seen[string(line)] = number
		extract, err := hkdf.Extract(sha256.New, line, nil)
		if err != nil {
			problems = append(problems, fmt.Errorf("keys: line %d: %w", number, err))
			continue
		}
		ring.extracts = append(ring.extracts, extract)
	}
	switch {
	case len(problems) > 0:
	case len(ring.extracts) == 0:
		problems = append(problems, errors.New("keys: no key; write one line of at least 32 random characters, such as `openssl rand -base64 32` prints"))
	case len(ring.extracts) > MaxSecrets:
		problems = append(problems, fmt.Errorf("keys: %d keys, at most %d; remove those that sign nothing any more", len(ring.extracts), MaxSecrets))
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return ring, nil
}

func checkSecret(line []byte, sameAs int) error {
	switch n := utf8.RuneCount(line); {
	case line[0] == '#':
		return errors.New("begins with #; a key file has no comments, remove the line or let the key begin otherwise")
	case n < MinSecret:
		return fmt.Errorf("%d characters, at least %d are needed", n, MinSecret)
	case sameAs > 0:
		return fmt.Errorf("the same key as line %d; remove one of them", sameAs)
	}
	return nil
}

// Ephemeral reports whether the ring was made by [Random]: whoever starts a
// gateway with it should warn that nothing signed outlives the process.
func (r *Ring) Ephemeral() bool { return r.ephemeral }

// Len returns the number of secrets.
func (r *Ring) Len() int { return len(r.extracts) }
