package overload

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"

	"github.com/comporta/comporta"
)

// The dialects of the problem document.
const (
	DialectEnglish    = "en"
	DialectPortuguese = "pt-BR"
)

// DefaultTypeBase is the page that documents every code of the contract.
const DefaultTypeBase = "https://github.com/comporta/comporta/blob/main/docs/problems.md"

// Config says how refusals look. The zero value is the English contract, open to
// browsers of every origin.
type Config struct {
	// Dialect is DialectEnglish (also when empty) or DialectPortuguese.
	Dialect string
	// TypeBase is the page whose anchors are the problem types; empty means
	// DefaultTypeBase. The code is added after a '#', unless TypeBase ends in
	// '#', '/' or '='.
	TypeBase string
	// CORSOrigins are answered by name and with credentials
	// ("https://app.example"); all others are answered with *.
	CORSOrigins []string
	// Policy returns the value of Retry-Policy, or "" while none is set; nil
	// never sets one. It is called once a refusal, from many goroutines.
	Policy func() string
}

// Writer writes refusals. It is immutable; its methods may be called from many
// goroutines. Make one with New.
type Writer struct {
	portuguese bool
	origins    map[string]struct{} // nil when none is listed
	policy     func() string
	types      [comporta.NumReasons]string // problem type by reason
}

// New compiles a writer. The error joins every problem of the configuration.
func New(c Config) (*Writer, error) {
	var problems []error
	w := &Writer{policy: c.Policy}
	switch c.Dialect {
	case "", DialectEnglish:
	case DialectPortuguese:
		w.portuguese = true
	default:
		problems = append(problems, fmt.Errorf("overload: Dialect %q is unknown: use %q or %q",
			c.Dialect, DialectEnglish, DialectPortuguese))
	}
	base, err := typeBase(c.TypeBase)
	if err != nil {
		problems = append(problems, err)
	}
	w.types = typesUnder(base)
	w.origins, err = origins(c.CORSOrigins)
	if err != nil {
		problems = append(problems, err)
	}
	if problems != nil {
		return nil, errors.Join(problems...)
	}
	return w, nil
}

// typesUnder returns the problem type of every reason.
func typesUnder(base string) (types [comporta.NumReasons]string) {
	for r := range comporta.NumReasons {
		types[r] = base + r.String()
	}
	return types
}

func typeBase(base string) (string, error) {
	if base == "" {
		base = DefaultTypeBase
	}
	u, err := url.Parse(base)
	if err != nil || !u.IsAbs() {
		return "", fmt.Errorf("overload: TypeBase %q is no absolute URI: give the page that documents the codes, like %q",
			base, DefaultTypeBase)
	}
	switch base[len(base)-1] {
	case '#', '/', '=':
		return base, nil
	}
	return base + "#", nil
}

// Write answers r with ref. It is the last word on the exchange: nothing may
// have been written to w before, and nothing may be written after.
//
// Headers that are on w already stay (a request id, those of outer middleware),
// except those that describe another body or another wait.
func (wr *Writer) Write(w http.ResponseWriter, r *http.Request, ref *Refusal) {
	s, _ := scratches.Get().(*scratch)
	defer s.release()
	h := w.Header()
	forget(h)
	if kind := grpcContentType(r.Header); kind != "" {
		wr.grpcHead(h, r, ref, s, kind)
		w.WriteHeader(http.StatusOK)
		return
	}
	body := wr.appendBody(s, ref)
	wr.httpHead(h, r, ref, s, len(body))
	w.WriteHeader(ref.StatusCode())
	if r.Method != http.MethodHead {
		//nolint:gosec // no way into a page: JSON with HTML escaped, or what the service itself said before
		_, _ = w.Write(body) // it fails only when the client has left, and then nobody is owed an answer
	}
}

// appendBody returns the body of a refusal; it lives until s is released.
func (wr *Writer) appendBody(s *scratch, ref *Refusal) []byte {
	switch {
	case ref.Answer != nil:
		return ref.Answer.Body
	case wr.portuguese:
		s.body = appendPortuguese(s.body, ref)
	default:
		p := wr.problem(ref)
		s.body = append(appendProblem(s.body, &p), '\n')
	}
	return s.body
}

// problem fills in the document of ref.
func (wr *Writer) problem(ref *Refusal) comporta.Problem {
	p := comporta.Problem{
		Type:             wr.types[ref.reason()],
		Title:            ref.title(),
		Status:           ref.StatusCode(),
		Detail:           ref.detail(),
		Code:             ref.code(),
		Retryable:        ref.Retryable(),
		ObservedAttempts: ref.Attempts,
		Outcome:          ref.Outcome,
		MinimumVersion:   ref.MinimumVersion,
		ViolatedPolicies: ref.Violated,
		RequestID:        ref.RequestID,
	}
	if ref.Code != "" {
		p.Type = "about:blank"
	}
	if wait := ref.wait(); wait > 0 {
		p.RetryAfterS, p.RetryAfterMs = seconds(wait), millis(wait)
	}
	return p
}

// scratch is the memory in which one refusal takes shape.
type scratch struct {
	body []byte // the document
	text []byte // header values, side by side
}

var scratches = sync.Pool{New: func() any {
	return &scratch{body: make([]byte, 0, 512), text: make([]byte, 0, 256)}
}}

// maxScratch keeps one refusal with an enormous detail from holding its memory
// for ever.
const maxScratch = 16 << 10

func (s *scratch) release() {
	if cap(s.body) > maxScratch || cap(s.text) > maxScratch {
		return
	}
	s.body, s.text = s.body[:0], s.text[:0]
	scratches.Put(s)
}
