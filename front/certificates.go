package front

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// certificatesEvery is how long a renewed certificate may wait to be noticed.
const certificatesEvery = 5 * time.Second

// CertificateFiles says where the secrets of a listener with TLS are.
type CertificateFiles struct {
	Cert, Key string // chain and private key in PEM
	// ClientCA holds the authorities whose client certificates are accepted, in PEM;
	// empty asks for none. Who has no certificate is served without.
	ClientCA string
	// MinVersion is the oldest version of TLS that is spoken, as in tls.Config; 0
	// means 1.2.
	MinVersion uint16
}

// Certificates are the secrets of a listener, read again when their files change: a
// handshake looks at most every 5 s. What cannot be read leaves the old ones in
// force. Methods may be called from many goroutines.
type Certificates struct {
	files  CertificateFiles
	report func(error)

	mu      sync.Mutex
	config  *tls.Config
	looked  time.Time
	seen    []os.FileInfo // of the files, nil for one that is missing
	looking bool
}

// LoadCertificates reads the files. report is told when they have changed: with nil
// that they are in force, with an error that the old ones stay; nil tells nobody.
func LoadCertificates(files CertificateFiles, report func(error)) (*Certificates, error) {
	if report == nil {
		report = func(error) {}
	}
	seen := files.stat() // before reading: what changes meanwhile is read again
	config, err := files.load()
	if err != nil {
		return nil, err
	}
	return &Certificates{files: files, report: report, config: config, looked: time.Now(), seen: seen}, nil
}

// Config returns a configuration for Config.TLS which follows the files.
func (c *Certificates) Config() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12, // that of ConfigAt counts
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.ConfigAt(time.Now()), nil },
	}
}

// ConfigAt returns what is in force at now, after a look at the files if it is time
// for one. One caller looks; the others go on with what there is.
func (c *Certificates) ConfigAt(now time.Time) *tls.Config {
	c.mu.Lock()
	config := c.config
	if c.looking || now.Sub(c.looked) < certificatesEvery {
		c.mu.Unlock()
		return config
	}
	c.looking, c.looked = true, now
	c.mu.Unlock()

	seen := c.files.stat()
	fresh, err := config, error(nil)
	changed := !same(seen, c.seen) // only who looks touches it
	if changed {
		fresh, err = c.files.load()
	}
	c.mu.Lock()
	c.looking, c.seen = false, seen
	if err == nil {
		c.config, config = fresh, fresh
	}
	c.mu.Unlock()
	if changed {
		c.report(err)
	}
	return config
}

func (f *CertificateFiles) stat() []os.FileInfo {
	names := [...]string{f.Cert, f.Key, f.ClientCA}
	list := make([]os.FileInfo, len(names))
	for i, name := range names {
		if name != "" {
			list[i], _ = os.Stat(name) // a missing file fails to load
		}
	}
	return list
}

func same(a, b []os.FileInfo) bool {
	for i := range a {
		switch {
		case a[i] == nil || b[i] == nil:
			if a[i] != b[i] {
				return false
			}
		case !os.SameFile(a[i], b[i]) || a[i].Size() != b[i].Size() || !a[i].ModTime().Equal(b[i].ModTime()):
			return false
		}
	}
	return true
}

func (f *CertificateFiles) load() (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, fmt.Errorf("tls: %s and %s: %w", f.Cert, f.Key, err)
	}
	c := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: max(f.MinVersion, tls.VersionTLS12), NextProtos: protocols}
	if f.ClientCA == "" {
		return c, nil
	}
	pem, err := os.ReadFile(f.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("tls: client_ca_file: %w", err)
	}
	c.ClientCAs = x509.NewCertPool()
	if !c.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, errors.New("tls: client_ca_file: " + f.ClientCA + " holds no certificate in PEM")
	}
	// Who has no certificate is somebody else, not nobody.
	c.ClientAuth = tls.VerifyClientCertIfGiven
	return c, nil
}

// protocols is what ALPN offers.
var protocols = []string{"h2", "http/1.1"}
