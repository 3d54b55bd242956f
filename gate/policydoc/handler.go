package policydoc

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate/overload"
	"github.com/comporta/comporta/internal/retrypolicy"
)

// Path is where the document is published.
const Path = retrypolicy.Path

// cacheControl lets caches answer for a minute: the time within which an
// operator expects clients to follow.
const cacheControl = "max-age=60"

// Config says what is published. File and Writer are required.
type Config struct {
	// File is the document, as docs/wire.md describes it.
	File string
	// Writer writes the refusals, and lets browsers of other origins read the
	// document.
	Writer *overload.Writer
	// Above is the version that was published before, by a Handler whose place
	// this one takes; 0 when there was none. See Handler.Version.
	Above uint64
}

// Handler publishes the document. Make one with New; its methods may be called
// from many goroutines.
type Handler struct {
	file   string
	writer *overload.Writer

	loading sync.Mutex // one Reload after the other
	current atomic.Pointer[document]
}

// document is what is published. It is immutable.
type document struct {
	version uint64
	body    []byte
	etag    string
	length  string
}

// New loads the file. The error joins all problems of c and of the document,
// each of the latter with its line.
func New(c Config) (*Handler, error) {
	var problems []error
	if c.Writer == nil {
		problems = append(problems, errors.New("policydoc: Writer: is nil; pass the one that writes the refusals"))
	}
	doc, err := load(c.File, c.Above)
	if err != nil {
		problems = append(problems, err)
	}
	if problems != nil {
		return nil, errors.Join(problems...)
	}
	h := &Handler{file: c.File, writer: c.Writer}
	h.current.Store(doc)
	return h, nil
}

// Reload reads the file again, and reports whether another document is published
// now. On an error, which joins all problems, the old one goes on.
func (h *Handler) Reload() (changed bool, err error) {
	h.loading.Lock()
	defer h.loading.Unlock()
	was := h.current.Load()
	doc, err := load(h.file, was.version)
	if err != nil || doc.etag == was.etag {
		return false, err
	}
	h.current.Store(doc)
	return true, nil
}

// Version returns the version of the document that is published.
func (h *Handler) Version() uint64 { return h.current.Load().version }

// load reads and checks a file; above is the least version that clients take.
func load(file string, above uint64) (*document, error) {
	if file == "" {
		return nil, errors.New("policydoc: File: is empty; name the document")
	}
	text, err := read(file)
	if err != nil {
		return nil, fmt.Errorf("policydoc: File: %w", err)
	}
	doc, err := retrypolicy.Check(text)
	if err != nil {
		return nil, inFile(file, err)
	}
	if doc.Version < above {
		return nil, fmt.Errorf("%s: version: %d is below %d, which was published before, so that clients would ignore it; count up",
			file, doc.Version, above)
	}
	var body bytes.Buffer
	if err := json.Compact(&body, text); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	sum := sha256.Sum256(body.Bytes())
	return &document{
		version: doc.Version,
		body:    body.Bytes(),
		etag:    `"` + hex.EncodeToString(sum[:12]) + `"`,
		length:  strconv.Itoa(body.Len()),
	}, nil
}

// read reads no more of a file than shows that it is too long.
func read(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, retrypolicy.MaxSize+1))
}

// inFile names the file before each of the joined problems.
func inFile(file string, err error) error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return fmt.Errorf("%s:%w", file, err)
	}
	var problems []error
	for _, problem := range joined.Unwrap() {
		problems = append(problems, fmt.Errorf("%s:%w", file, problem))
	}
	return errors.Join(problems...)
}

// ServeHTTP answers GET and HEAD with the document, or with 304 to those who
// have it; preflights of browsers; and everything else with a refusal.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if overload.IsPreflight(r) {
		h.preflight(w, r)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header()["Allow"] = []string{"GET, HEAD, OPTIONS"}
		h.writer.Write(w, r, &overload.Refusal{Reason: comporta.MethodNotAllowed})
		return
	}
	doc := h.current.Load()
	header := w.Header()
	header["Etag"] = []string{doc.etag}
	header["Cache-Control"] = []string{cacheControl}
	header["Access-Control-Expose-Headers"] = []string{"ETag"} // AllowOrigin adds the contract's
	h.writer.AllowOrigin(header, r)
	if matches(r.Header["If-None-Match"], doc.etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	header["Content-Type"] = []string{"application/json"}
	header["Content-Length"] = []string{doc.length}
	header["X-Content-Type-Options"] = []string{"nosniff"}
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodGet {
		_, _ = w.Write(doc.body) // it fails only when the client has left
	}
}

// preflight allows what a client in a browser may send along.
func (h *Handler) preflight(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	h.writer.AllowOrigin(header, r)
	header["Access-Control-Allow-Methods"] = []string{"GET, HEAD"}
	header["Access-Control-Allow-Headers"] = []string{"If-None-Match, Client-Version"}
	header["Access-Control-Max-Age"] = []string{"86400"}
	w.WriteHeader(http.StatusNoContent)
}

// matches compares as RFC 9110, 13.1.2, has it: any of the list, weakly, or *.
func matches(lines []string, etag string) bool {
	for _, line := range lines {
		for tag := range strings.SplitSeq(line, ",") { // our own tags have no comma
			tag = strings.Trim(tag, " \t")
			if tag == "*" || strings.TrimPrefix(tag, "W/") == etag {
				return true
			}
		}
	}
	return false
}
