package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/comporta/comporta/internal/admin"
	"github.com/comporta/comporta/internal/config"
)

// checkSecrets reads what the files of a configuration hold, but for the keys,
// which are compiled.
func checkSecrets(c *config.Config) error {
	var problems []error
	for i := range c.Listen {
		if t := c.Listen[i].TLS; t != nil {
			if _, err := tlsOf(t); err != nil {
				problems = append(problems, fmt.Errorf("listen[%d]: %w", i, err))
			}
		}
	}
	if c.Admin.TokenFile != "" {
		_, err := admin.ReadToken(c.Admin.TokenFile)
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// tlsOf reads the certificate of a listener.
func tlsOf(t *config.TLS) (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("tls: %s and %s: %w", t.CertFile, t.KeyFile, err)
	}
	c := &tls.Config{
		Certificates: []tls.Certificate{cert}, MinVersion: uint16(t.MinVersion), NextProtos: []string{"h2", "http/1.1"},
	}
	if t.ClientCAFile == "" {
		return c, nil
	}
	pem, err := os.ReadFile(t.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("tls: client_ca_file: %w", err)
	}
	c.ClientCAs = x509.NewCertPool()
	if !c.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("tls: client_ca_file: %s holds no certificate in PEM", t.ClientCAFile)
	}
	// Who has no certificate is somebody else, not nobody.
	c.ClientAuth = tls.VerifyClientCertIfGiven
	return c, nil
}
