package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/internal/retryafter"
	"github.com/comporta/comporta/internal/retrypolicy"
)

// pollTimeout bounds one look, with everything from the name to the last byte.
const pollTimeout = 10 * time.Second

// maxETag is the longest ETag that is sent back, in bytes.
const maxETag = 256

// Why a look brought nothing; they come wrapped, by Trace.Failed.
var (
	ErrOlder      = errors.New("remote: the document is older than the one in force")
	ErrUnreadable = errors.New("remote: the document cannot be read")
	ErrRunning    = errors.New("remote: Run runs already")
)

// StatusError is the answer to a look that was neither a document nor "not
// modified".
type StatusError struct{ Code int }

func (e *StatusError) Error() string {
	return fmt.Sprintf("remote: the server of the document answered %d", e.Code)
}

// Run looks at the document until ctx ends, and returns why it did. Without a URL
// it only waits. At most one Run may run; others return ErrRunning.
func (s *Switch) Run(ctx context.Context) error {
	if !s.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer s.running.Store(false)
	if s.config.URL == "" {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	// The first look comes soon, but not in the same moment for all the clients
	// that a deployment starts.
	timer := time.NewTimer(time.Duration(s.random() * float64(s.config.Poll) / 10))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
		}
		asked, err := s.look(ctx)
		if err != nil && ctx.Err() == nil {
			s.failed(err)
		}
		timer.Reset(s.pause(asked))
	}
}

// pause returns the time until the next look: the period give or take a fifth,
// or later if the server asked for that.
func (s *Switch) pause(asked time.Duration) time.Duration {
	period := float64(s.now.Load().poll)
	asked = min(asked, maxPoll)
	return max(time.Duration(period*(0.8+0.4*s.random())), asked+time.Duration(0.2*period*s.random()))
}

// random returns a number within [0, 1], whatever the generator says.
func (s *Switch) random() float64 {
	if r := s.config.Rand(); r > 0 { // so written, it catches NaN too
		return min(r, 1)
	}
	return 0
}

// look asks for the document once. asked is how long the server wants to be left
// alone.
func (s *Switch) look(ctx context.Context) (asked time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.config.URL, http.NoBody)
	if err != nil {
		return 0, fmt.Errorf("remote: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	if s.agent != "" {
		req.Header.Set(comporta.HeaderClientVersion, s.agent)
	}
	if etag := s.now.Load().etag; etag != "" {
		req.Header.Set("If-None-Match", etag)
	}
	resp, err := s.config.HTTP.Do(req)
	if err != nil {
		return 0, fmt.Errorf("remote: %w", err)
	}
	defer resp.Body.Close()
	now := time.Now()
	if policy := resp.Header.Get(comporta.HeaderRetryPolicy); policy != "" {
		s.HeardAt(now, req.URL.Host, policy)
	}
	switch resp.StatusCode {
	case http.StatusOK:
		return 0, s.receive(resp)
	case http.StatusNotModified:
		return 0, nil
	}
	return retryafter.WaitAt(now, resp.Header).Exact(), &StatusError{resp.StatusCode}
}

// receive puts the document of a response in force and keeps it.
func (s *Switch) receive(resp *http.Response) error {
	data, err := io.ReadAll(io.LimitReader(resp.Body, retrypolicy.MaxSize+1))
	if err != nil {
		return fmt.Errorf("remote: %w", err)
	}
	etag := resp.Header.Get("Etag")
	if len(etag) > maxETag {
		etag = ""
	}
	return s.apply(string(data), etag, false)
}

// apply puts a document in force unless it is older than the one that is, and
// keeps it unless it is from the file.
func (s *Switch) apply(text, etag string, fromFile bool) error {
	doc, err := retrypolicy.Parse([]byte(text))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	s.applying.Lock()
	defer s.applying.Unlock()
	was := s.now.Load()
	if doc.Version < was.version {
		return fmt.Errorf("%w: version %d, after %d", ErrOlder, doc.Version, was.version)
	}
	// A server without ETags sends the same document again and again.
	if text != was.text || etag != was.etag {
		s.kept = fromFile
		s.now.Store(s.of(doc, etag, text))
		if s.config.Trace.Applied != nil {
			s.config.Trace.Applied(s)
		}
	}
	if s.kept || s.config.File == "" {
		return nil
	}
	if err := s.save(text, etag); err != nil {
		return err // the next look that brings it tries again
	}
	s.kept = true
	return nil
}

func (s *Switch) failed(err error) {
	if s.config.Trace.Failed != nil {
		s.config.Trace.Failed(err)
	}
}
