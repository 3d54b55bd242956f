package repeat

import "github.com/comporta/comporta"

// The two forms of a fingerprint. They are told apart, so that a key that looks
// like a query names nothing but itself.
const (
	formKey  = 1
	formBody = 2
)

// fingerprint names the operation of a request: by its Idempotency-Key if it
// has one, else by its query and body. ok is false while the body is unknown.
func (d *Detector) fingerprint(r *comporta.Request, digest uint64) (name uint64, ok bool) {
	s := d.table.seed.Start().Uint(r.Client.Key).Str(r.Method).Str(r.Host).Str(r.Path)
	if r.IdempotencyKey != "" {
		return s.Uint(formKey).Str(r.IdempotencyKey).Name(), true
	}
	if r.BodySize == 0 {
		digest = 0
	} else if digest == 0 {
		return 0, false
	}
	s = s.Uint(formBody)
	if r.Query != "" { // a part less is another name already
		s = s.Str(r.Query)
	}
	return s.Uint(digest).Name(), true
}

// WantsBody reports whether the body's digest is worth its price before
// admission: only under pressure, and only where it can be held against a
// client, because it asks by itself, without a key, and sends a body of known
// and moderate size. Everywhere else the body is digested while it streams and
// the sighting filed by [Detector.FileAt].
func (d *Detector) WantsBody(r *comporta.Request, pressed bool) bool {
	return pressed && r.Body != nil && !shared(r) && r.IdempotencyKey == "" &&
		r.BodySize > 0 && r.BodySize <= d.bodyLimit
}

// shared reports whether many users may stand behind the client's key.
func shared(r *comporta.Request) bool { return r.Client.Shared || r.Client.Key == 0 }

// Accusable reports whether the sighting of r may cost its client anything: it
// is a repeat, and by better evidence than a fingerprint under a key that many
// users share. In a simulated recovery 1 % of false accusations nearly doubled
// the time until users were served again.
func Accusable(r *comporta.Request) bool {
	return r.Sighting.Kind.Repeat() && r.Sighting.Evidence > comporta.EvidenceShared
}

// evidenceOf ranks what a fingerprint proves.
func evidenceOf(r *comporta.Request) comporta.Evidence {
	switch {
	case r.IdempotencyKey != "":
		return comporta.EvidenceKey
	case shared(r):
		return comporta.EvidenceShared
	}
	return comporta.EvidenceBody
}
