package main

import (
	"errors"
	"fmt"

	"github.com/comporta/comporta/front"
	"github.com/comporta/comporta/internal/admin"
	"github.com/comporta/comporta/internal/config"
)

// checkSecrets reads what the files of a configuration hold, but for the keys,
// which are compiled.
func checkSecrets(c *config.Config) error {
	var problems []error
	for i := range c.Listen {
		if t := c.Listen[i].TLS; t != nil {
			if _, err := front.LoadCertificates(filesOf(t), nil); err != nil {
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

// filesOf says where the certificate of a listener is.
func filesOf(t *config.TLS) front.CertificateFiles {
	return front.CertificateFiles{Cert: t.CertFile, Key: t.KeyFile, ClientCA: t.ClientCAFile, MinVersion: uint16(t.MinVersion)}
}
