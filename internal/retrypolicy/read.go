package retrypolicy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/comporta/comporta"
)

// DocumentError is one fault of a document.
type DocumentError struct {
	Line, Col int    // from 1, in bytes
	Key       string // like routes./orders.max_attempts; empty for the document itself
	Text      string // what is wrong, and what would be right
}

func (e *DocumentError) Error() string {
	if e.Key == "" {
		return fmt.Sprintf("%d:%d: %s", e.Line, e.Col, e.Text)
	}
	return fmt.Sprintf("%d:%d: %s: %s", e.Line, e.Col, e.Key, e.Text)
}

// Parse reads a document as a client does: keys that it does not know are
// ignored. The error joins a *DocumentError for each fault; a document with a fault in
// what is known is no document.
func Parse(data []byte) (*Document, error) { return read(data, false) }

// Check reads a document as its author does: unknown keys and contradictions
// are faults too.
func Check(data []byte) (*Document, error) { return read(data, true) }

// reader walks through a document and collects what is wrong with it.
type reader struct {
	data     []byte
	strict   bool
	problems []error
}

func read(data []byte, strict bool) (*Document, error) {
	r := &reader{data: data, strict: strict}
	if len(data) > MaxSize {
		r.badf(0, "", "the document has %d bytes; clients read %d", len(data), MaxSize)
		return nil, errors.Join(r.problems...)
	}
	doc := new(Document)
	if r.syntax() {
		r.document(doc)
	}
	if r.problems != nil {
		return nil, errors.Join(r.problems...)
	}
	return doc, nil
}

func (r *reader) badf(offset int, key, format string, args ...any) {
	before := r.data[:min(offset, len(r.data))]
	line := bytes.Count(before, []byte("\n")) + 1
	col := len(before) - bytes.LastIndexByte(before, '\n')
	r.problems = append(r.problems, &DocumentError{line, col, key, fmt.Sprintf(format, args...)})
}

// syntax reports whether the data is JSON at all.
func (r *reader) syntax() bool {
	var whole json.RawMessage
	err := json.Unmarshal(r.data, &whole)
	if err == nil {
		return true
	}
	at := 0
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		at = max(int(e.Offset)-1, 0) // it counts the byte that it did not expect
	}
	r.badf(at, "", "is no JSON: %v", err)
	return false
}

// value is a value of the document and its place.
type value struct {
	key  string // the full name
	raw  json.RawMessage
	at   int // where a problem with it is shown: its name
	base int // where raw begins
}

func (r *reader) document(doc *Document) {
	whole := value{raw: r.data}
	seen := r.object(whole, func(name string, v value) bool {
		switch name {
		case "version":
			if n, ok := r.whole(v, 1, maxVersion, "count up from 1 with every change"); ok {
				doc.Version = uint64(n)
			}
		case "budget":
			r.budget(doc, v)
		case "poll_s":
			if n, ok := r.whole(v, 1, int64(MaxPoll/time.Second), "60 lets clients look once a minute"); ok {
				doc.Poll = time.Duration(n) * time.Second
			}
		case "minimum_client_version":
			r.minimum(doc, v)
		case "routes":
			r.routes(doc, v)
		default:
			return r.limit(&doc.Limits, name, v)
		}
		return true
	})
	if seen == nil {
		return
	}
	if !seen["version"] {
		r.badf(0, "version", "is missing; count up from 1 with every change")
	}
	r.contradictions(whole, &doc.Limits)
}

// limit reads what may stand both in the document and in a route.
func (r *reader) limit(l *Limits, name string, v value) (known bool) {
	switch name {
	case "retries_enabled":
		var enabled bool
		if r.scalar(v, &enabled, "true or false") {
			l.RetriesEnabled = &enabled
		}
	case "max_attempts":
		l.MaxAttempts = r.count(v, 1, MaxAttempts, "1 means no retry")
	case "min_wait_ms":
		l.MinWait = r.millis(v, 0)
	case "max_wait_ms":
		l.MaxWait = r.millis(v, 1)
	case "total_ms":
		l.Total = r.millis(v, 1)
	default:
		return false
	}
	return true
}

func (r *reader) budget(doc *Document, v value) {
	r.object(v, func(name string, v value) bool {
		switch name {
		case "per_success":
			doc.PerSuccess = r.share(v, "0.1 allows one repeat for ten successes")
		case "burst":
			doc.Burst = r.count(v, 0, MaxBurst, "10 allows ten repeats before any success")
		default:
			return false
		}
		return true
	})
}

func (r *reader) minimum(doc *Document, v value) {
	var text string
	if !r.scalar(v, &text, `a text like "acme-go/2.1.0"`) {
		return
	}
	version, ok := comporta.ParseClientVersion(text)
	if !ok {
		r.badf(v.at, v.key, `%q is no version; write name/major.minor.patch, like "acme-go/2.1.0"`, text)
		return
	}
	doc.Minimum = version
}

func (r *reader) routes(doc *Document, v value) {
	doc.Routes = map[string]Limits{}
	r.object(v, func(path string, v value) bool {
		if path == "" || path[0] != '/' || len(path) > maxRoute || strings.ContainsAny(path, "?# \t\r\n") {
			if r.strict {
				r.badf(v.at, v.key, `is no path; write "/orders" for /orders and everything below it`)
			}
			return true // a younger kind of route is none of ours
		}
		key := strings.TrimSuffix(path, "/")
		if _, twice := doc.Routes[key]; twice {
			r.badf(v.at, v.key, "covers what another route covers; keep one of them")
			return true
		}
		if len(doc.Routes) == MaxRoutes {
			r.badf(v.at, v.key, "is one route too many; at most %d", MaxRoutes)
			return true
		}
		var l Limits
		r.object(v, func(name string, v value) bool { return r.limit(&l, name, v) })
		r.contradictions(v, &l)
		doc.Routes[key] = l
		return true
	})
}

func (r *reader) contradictions(v value, l *Limits) {
	if r.strict && l.MinWait != nil && l.MaxWait != nil && *l.MinWait > *l.MaxWait {
		r.badf(v.at, v.key, "min_wait_ms %d is above max_wait_ms %d; lower the one or raise the other",
			l.MinWait.Milliseconds(), l.MaxWait.Milliseconds())
	}
}

// object calls member for each member of an object, which returns whether it
// knows the name. The result names those seen; nil when v is no object.
func (r *reader) object(v value, member func(name string, v value) bool) map[string]bool {
	d := json.NewDecoder(bytes.NewReader(v.raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		r.badf(v.at, v.key, "is no JSON object")
		return nil
	}
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		name, ok := t.(string)
		if err != nil || !ok {
			break // cannot be: the syntax has been checked
		}
		m := value{key: strings.TrimPrefix(v.key+"."+name, ".")}
		m.at = v.base + startOfName(v.raw, int(d.InputOffset()))
		if err := d.Decode(&m.raw); err != nil {
			break
		}
		m.base = v.base + int(d.InputOffset()) - len(m.raw)
		if seen[name] {
			r.badf(m.at, m.key, "stands here twice; keep one")
			continue
		}
		seen[name] = true
		if !member(name, m) && r.strict {
			r.badf(m.at, m.key, "is no key of a policy document; remove it")
		}
	}
	return seen
}

// startOfName returns where the quoted name begins that ends at an offset.
func startOfName(raw []byte, end int) int {
	for i := end - 2; i > 0; i-- {
		if raw[i] == '"' && raw[i-1] != '\\' {
			return i
		}
	}
	return 0
}

// scalar reads a value of one type; kind says which.
func (r *reader) scalar(v value, to any, kind string) bool {
	if string(v.raw) == "null" || json.Unmarshal(v.raw, to) != nil {
		r.badf(v.at, v.key, "%s is not %s", shorten(v.raw), kind)
		return false
	}
	return true
}

// whole reads a whole number within bounds.
func (r *reader) whole(v value, least, most int64, hint string) (int64, bool) {
	f, err := strconv.ParseFloat(string(v.raw), 64)
	n := int64(f)
	if err != nil || f < float64(least) || f > float64(most) || float64(n) != f {
		r.badf(v.at, v.key, "%s is no whole number within %d and %d; %s", shorten(v.raw), least, most, hint)
		return 0, false
	}
	return n, true
}

func (r *reader) millis(v value, least int64) *time.Duration {
	n, ok := r.whole(v, least, MaxWait.Milliseconds(), "it counts milliseconds")
	if !ok {
		return nil
	}
	d := time.Duration(n) * time.Millisecond
	return &d
}

func (r *reader) count(v value, least, most int64, hint string) *int {
	n, ok := r.whole(v, least, most, hint)
	if !ok {
		return nil
	}
	count := int(n)
	return &count
}

// share reads a number within 0 and 1.
func (r *reader) share(v value, hint string) *float64 {
	f, err := strconv.ParseFloat(string(v.raw), 64)
	if err != nil || !(f >= 0 && f <= 1) {
		r.badf(v.at, v.key, "%s is no share within 0 and 1; %s", shorten(v.raw), hint)
		return nil
	}
	return &f
}

// shorten keeps a long value from filling the screen.
func shorten(raw []byte) string {
	const most = 40
	if len(raw) <= most {
		return string(raw)
	}
	return strings.ToValidUTF8(string(raw[:most]), "") + "…"
}
