package repeat

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/comporta/comporta"
)

const (
	// MaxAnswerBody is the largest body, in bytes, that an answer keeps.
	MaxAnswerBody = 4 << 10
	// DefaultAnswerBytes is the size of a store of answers whose size was left open.
	DefaultAnswerBytes = 4 << 20
	// MinAnswerBytes is the smallest size of a store of answers.
	MinAnswerBytes = 64 << 10
	// Recheck is how often one request passes to the service, to see whether the
	// answer still holds.
	Recheck = 10 * time.Second
	// answerOverhead is what an entry costs beside its texts: itself and its
	// share of the map.
	answerOverhead = 320
	// maxField is the longest Content-Type or Content-Encoding worth keeping.
	maxField = 256
)

// Answer is the service's own last answer to a hopeless request.
type Answer struct {
	Status   int
	Type     string // Content-Type
	Encoding string // Content-Encoding
	// Body belongs to the store: it may be read and kept, never written.
	Body []byte
	// Whole says that Body is the answer's body. If not, it was too large or not
	// to be stored, and the problem document stands in for it.
	Whole bool
}

// Answers is the memory of the short circuit, apart from the table: bounded in
// bytes, the answer stored longest ago leaves first. It outlives reloads. Methods
// may be called from many goroutines; a mutex guards it, which is no hardship,
// because only hopeless requests come here.
type Answers struct {
	key   [32]byte // names of answers hold credentials: without the key nobody can test guesses on them
	limit int

	mu      sync.Mutex
	byName  map[answerName]*answerEntry
	ring    answerEntry // its next is the entry stored longest ago, its prev the latest
	bytes   int
	evicted uint64
}

type answerEntry struct {
	name    answerName
	answer  Answer
	stored  time.Time
	checked time.Time // when a request last passed to the service
	bytes   int

	prev, next *answerEntry // in the ring
}

// NewAnswers returns a store of at most the given size in bytes; 0 means
// DefaultAnswerBytes.
func NewAnswers(bytes int) (*Answers, error) {
	if bytes == 0 {
		bytes = DefaultAnswerBytes
	}
	if bytes < MinAnswerBytes {
		return nil, fmt.Errorf("repeat: answers: %d bytes; set at least %d", bytes, MinAnswerBytes)
	}
	a := &Answers{limit: bytes, byName: map[answerName]*answerEntry{}}
	a.ring.prev, a.ring.next = &a.ring, &a.ring
	if _, err := rand.Read(a.key[:]); err != nil {
		return nil, fmt.Errorf("repeat: answers: %w", err)
	}
	return a, nil
}

// Bytes is what the stored answers hold, never above the limit.
func (a *Answers) Bytes() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.bytes
}

// Evictions counts answers that were forgotten for want of room.
func (a *Answers) Evictions() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.evicted
}

// AnswerAt returns the answer with which a hopeless repeat may be served without
// asking the service. ok is false for every other request, while nothing is
// known, and once in Recheck: that request is to go to the service, and its
// answer to [Detector.KeepAt].
func (d *Detector) AnswerAt(now time.Time, r *comporta.Request, digest uint64) (answer Answer, ok bool) {
	if d.answers == nil || r.Sighting.Kind != comporta.KindHopeless || !Accusable(r) || !answerable(r, digest) {
		return Answer{}, false
	}
	return d.answers.lookAt(now, d.windowLength, d.answers.nameOf(r, digest))
}

// KeepAt stores the answer to a request that [Detector.ResolveAt] reported as
// hopeless. Of a body that is larger than MaxAnswerBody, the first MaxAnswerBody
// bytes and one more are enough; header is the answer's.
func (d *Detector) KeepAt(now time.Time, r *comporta.Request, digest uint64, status int, header http.Header, body []byte) {
	if d.answers == nil || status < 400 || !answerable(r, digest) || readUntilCreated(r.Method, status) || !coversVary(header) {
		return
	}
	d.answers.keepAt(now, d.answers.nameOf(r, digest), answerOf(status, header, body))
}

// answerable reports whether the answer to r is the same for nobody else and
// all that it may depend on is known: who asks, and the body.
func answerable(r *comporta.Request, digest uint64) bool {
	return !shared(r) && (r.BodySize == 0 || digest != 0)
}

// readUntilCreated reports whether asking again is how one waits for something
// to appear.
func readUntilCreated(method string, status int) bool {
	return (method == http.MethodGet || method == http.MethodHead) &&
		(status == http.StatusNotFound || status == http.StatusGone)
}

func answerOf(status int, header http.Header, body []byte) Answer {
	a := Answer{Status: status, Type: header.Get("Content-Type"), Encoding: header.Get("Content-Encoding")}
	a.Whole = len(body) <= MaxAnswerBody && len(a.Type) <= maxField && len(a.Encoding) <= maxField &&
		!forbidsStore(header)
	if !a.Whole {
		return Answer{Status: status}
	}
	a.Type, a.Encoding = strings.Clone(a.Type), strings.Clone(a.Encoding) // not the head that they are cut from
	a.Body = append([]byte(nil), body...)
	return a
}

// forbidsStore reads Cache-Control: no-store (RFC 9111, 5.2.2.5).
func forbidsStore(header http.Header) bool {
	for _, v := range header["Cache-Control"] {
		for directive := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(directive), "no-store") {
				return true
			}
		}
	}
	return false
}

func (a *Answers) lookAt(now time.Time, window time.Duration, name answerName) (Answer, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e, ok := a.byName[name]
	if !ok {
		return Answer{}, false
	}
	if age := now.Sub(e.stored); age >= window || age <= -window {
		a.drop(e)
		return Answer{}, false
	}
	if since := now.Sub(e.checked); since >= Recheck || since < 0 {
		e.checked = now
		return Answer{}, false
	}
	return e.answer, true
}

func (a *Answers) keepAt(now time.Time, name answerName, answer Answer) {
	e := &answerEntry{
		name: name, answer: answer, stored: now, checked: now,
		bytes: answerOverhead + len(answer.Type) + len(answer.Encoding) + cap(answer.Body),
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if earlier, ok := a.byName[name]; ok {
		a.drop(earlier)
	}
	for a.bytes+e.bytes > a.limit && a.ring.next != &a.ring {
		a.drop(a.ring.next)
		a.evicted++
	}
	a.byName[name] = e
	e.prev, e.next = a.ring.prev, &a.ring
	e.prev.next, e.next.prev = e, e
	a.bytes += e.bytes
}

// drop forgets an entry; the caller holds the mutex.
func (a *Answers) drop(e *answerEntry) {
	e.prev.next, e.next.prev = e.next, e.prev
	delete(a.byName, e.name)
	a.bytes -= e.bytes
}
