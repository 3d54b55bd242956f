package identity

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
)

// names finds the readable name of a client. SHA-256 is computed once per key:
// a cache of fixed size remembers the answer, also that there is none.
//
// A nil *names is valid and knows no name.
type names struct {
	list  []knownName // sorted by prefix, none a prefix of another
	cache [nameSlots]atomic.Uint64
}

type knownName struct{ prefix, name string }

// nameSlots is fixed and small: 32 KiB. A flood of invented keys can push the
// known ones out, and then costs one SHA-256 a request.
const nameSlots = 1 << 12

func newNames(config map[string]string) (*names, error) {
	if len(config) == 0 {
		return nil, nil //nolint:nilnil // a nil *names is the valid empty one
	}
	var problems []error
	fail := func(name, format string, args ...any) {
		problems = append(problems, fmt.Errorf("identity: Names[%q]: "+format, append([]any{name}, args...)...))
	}
	n := &names{}
	for _, name := range slices.Sorted(maps.Keys(config)) {
		prefix := strings.ToLower(config[name])
		switch {
		case name == "":
			fail(name, "the name is empty; name the client")
		case len(prefix) < minNameDigits || len(prefix) > sha256.Size*2 || !hexDigits(prefix):
			fail(name, "%q is no prefix of a SHA-256; give the first %d to 64 hex digits, as from: printf %%s \"$KEY\" | sha256sum",
				config[name], minNameDigits)
		default:
			n.list = append(n.list, knownName{prefix, name})
		}
	}
	slices.SortFunc(n.list, func(a, b knownName) int { return strings.Compare(a.prefix, b.prefix) })
	for i := 1; i < len(n.list); i++ {
		if strings.HasPrefix(n.list[i].prefix, n.list[i-1].prefix) {
			fail(n.list[i].name, "its prefix begins with that of %q; give more digits of both", n.list[i-1].name)
		}
	}
	if len(n.list) > maxNames {
		problems = append(problems, fmt.Errorf("identity: Names: %d names; at most %d are kept", len(n.list), maxNames))
	}
	return n, errors.Join(problems...)
}

func hexDigits(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// of returns the name of the client with this key and credential.
func (n *names) of(key uint64, credential string) string {
	if n == nil {
		return ""
	}
	if name, known := n.cached(key); known {
		return name
	}
	return n.learn(key, credential)
}

// cached returns what is remembered of key. A slot is the upper 48 bits of the
// key over the index in the list plus one, 0 for no name; the place of the slot
// stands for 12 of the other bits.
func (n *names) cached(key uint64) (name string, known bool) {
	if n == nil {
		return "", true
	}
	slot := n.cache[key%nameSlots].Load()
	if slot>>16 != key>>16 || slot == 0 {
		return "", false
	}
	if i := slot & 0xffff; i > 1 {
		return n.list[i-2].name, true
	}
	return "", true
}

// learn computes and remembers the name.
func (n *names) learn(key uint64, credential string) string {
	if n == nil {
		return ""
	}
	sum := sha256.Sum256([]byte(credential))
	digest := hex.EncodeToString(sum[:])
	// The only candidate is the last prefix that is not above the digest.
	i, exact := slices.BinarySearchFunc(n.list, digest, func(k knownName, d string) int { return strings.Compare(k.prefix, d) })
	if !exact {
		i--
	}
	slot, name := key&^0xffff|1, ""
	if i >= 0 && strings.HasPrefix(digest, n.list[i].prefix) {
		slot, name = key&^0xffff|uint64(i+2), n.list[i].name
	}
	n.cache[key%nameSlots].Store(slot)
	return name
}
