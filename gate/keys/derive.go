package keys

import (
	"crypto/hkdf"
	"crypto/sha256"
)

// Key is the key of one purpose under one secret.
type Key struct {
	// ID tells which key signed. It is no secret, and says nothing of the key.
	// Two keys of a ring may share one (one chance in 4 billion), so a verifier
	// tries every key whose ID fits.
	ID [4]byte
	// Secret is the key itself.
	Secret [32]byte
}

// Derived holds the keys of one purpose, in the order of the ring: the first
// signs, all verify. It has no key if the ring had none.
type Derived struct {
	Keys []Key
}

// Derive returns the keys of a purpose, such as "ticket". It is HKDF-SHA256
// (RFC 5869) without salt, with the purpose as info: the same purpose gives the
// same keys on every gateway that reads the same file, and the keys of one
// purpose say nothing about those of another.
func (r *Ring) Derive(purpose string) Derived {
	var d Derived
	for _, extract := range r.extracts {
		var k Key
		if expand(k.ID[:], extract, "comporta/v1/id/"+purpose) && expand(k.Secret[:], extract, "comporta/v1/key/"+purpose) {
			d.Keys = append(d.Keys, k)
		}
	}
	return d
}

// expand fails only for outputs above 255 hashes.
func expand(dst, extract []byte, info string) bool {
	out, err := hkdf.Expand(sha256.New, extract, info, len(dst))
	return err == nil && copy(dst, out) == len(dst)
}
