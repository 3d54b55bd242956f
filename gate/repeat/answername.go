package repeat

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"net/http"
	"strings"

	"github.com/comporta/comporta"
)

// answerName is a 128-bit name of all that an answer may depend on. It is twice
// as long as a fingerprint, because a mistake would not merely miscount a
// request but hand out another one's answer.
type answerName [16]byte

// answerHeaders are the request headers that are part of an answer's name: who
// asks, in what form an answer is wanted, and how the body is to be read. An
// answer that says by Vary that it depends on another one is not kept.
var answerHeaders = [...]string{
	"Accept", "Accept-Charset", "Accept-Datetime", "Accept-Encoding", "Accept-Language",
	"Access-Control-Request-Headers", "Access-Control-Request-Method",
	"Authorization", "Content-Encoding", "Content-Language", "Content-Type", "Cookie",
	"If-Match", "If-Modified-Since", "If-None-Match", "If-Unmodified-Since",
	"Origin", "Range", "X-Http-Method-Override",
}

// nameOf names the answer to r: a keyed SHA-256 over parts that are each
// preceded by their length, truncated.
func (a *Answers) nameOf(r *comporta.Request, digest uint64) answerName {
	n := naming{mac: hmac.New(sha256.New, a.key[:])}
	n.number(r.Client.Key)
	n.text(r.Method)
	n.text(r.Host)
	n.text(r.Path)
	n.text(r.Query)
	n.text(r.IdempotencyKey)
	if r.BodySize != 0 {
		n.number(digest)
	}
	for _, name := range answerHeaders {
		values := r.Header[name]
		n.number(uint64(len(values)))
		for _, v := range values {
			n.text(v)
		}
	}
	var name answerName
	copy(name[:], n.mac.Sum(nil))
	return name
}

type naming struct{ mac hash.Hash }

func (n naming) number(v uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], v)
	n.mac.Write(b[:])
}

func (n naming) text(s string) {
	n.number(uint64(len(s)))
	n.mac.Write([]byte(s))
}

// coversVary reports whether every header that the answer depends on is part of
// its name (RFC 9110, 12.5.5).
func coversVary(header http.Header) bool {
	for _, v := range header["Vary"] {
		for field := range strings.SplitSeq(v, ",") {
			if field = strings.TrimSpace(field); field != "" && !named(field) {
				return false
			}
		}
	}
	return true
}

func named(field string) bool {
	for _, name := range answerHeaders {
		if strings.EqualFold(name, field) {
			return true
		}
	}
	return false
}
