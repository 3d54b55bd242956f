package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// Caller asks a running gateway. The zero Token is for loopback.
type Caller struct {
	URL      string // of the admin listener
	Token    string
	Operator Operator // on whose behalf it asks; zero: it does not say
}

// NewCaller reads the token file, if one is named.
func NewCaller(base, tokenFile string) (*Caller, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("admin: %q is no address: use one such as http://127.0.0.1:9900", base)
	}
	c := &Caller{URL: strings.TrimSuffix(base, "/")}
	if tokenFile != "" {
		c.Token, err = ReadToken(tokenFile)
	}
	return c, err
}

// ReadToken reads a token file: one line of at least 16 characters.
func ReadToken(name string) (string, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("admin: token file: %w", err)
	}
	token := strings.TrimSpace(string(b))
	if len(token) < 16 || strings.ContainsAny(token, " \t\r\n") {
		return "", fmt.Errorf("admin: token file %s: want one line of at least 16 characters without spaces", name)
	}
	return token, nil
}

const callTimeout = 10 * time.Second

// Call sends a request and decodes the answer into out, which may be nil. It
// returns the raw JSON too.
func (c *Caller) Call(ctx context.Context, method, path string, in, out any) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var body io.Reader = http.NoBody
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("admin: %w", err)
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.URL+path, body)
	if err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	c.Operator.write(req.Header)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("admin: no gateway answers at %s (is it running, and is -admin right?): %w", c.URL, err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	if resp.StatusCode >= http.StatusBadRequest {
		var f Failure
		if json.Unmarshal(answer, &f) != nil || f.Error == "" {
			f.Error = resp.Status
		}
		return answer, fmt.Errorf("%s", f.Error) //nolint:err113 // the gateway's own words
	}
	if out != nil {
		if err := json.Unmarshal(answer, out); err != nil {
			return answer, fmt.Errorf("admin: the answer of %s cannot be read: %w", c.URL, err)
		}
	}
	return answer, nil
}
