package front

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// pair writes a certificate and its key.
func pair(t *testing.T, f CertificateFiles, cert tls.Certificate) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	write(t, f.Cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]})))
	write(t, f.Key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
}

// write replaces a file in one step, as tools that renew certificates do.
func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

func TestCertificatesFollowTheirFiles(t *testing.T) {
	dir := t.TempDir()
	f := CertificateFiles{Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key"), MinVersion: tls.VersionTLS13}
	if _, err := LoadCertificates(f, nil); err == nil {
		t.Error("missing files load")
	}
	first, _ := certificate(t, "first")
	pair(t, f, first)
	var told []error
	c, err := LoadCertificates(f, func(err error) { told = append(told, err) })
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	name := func() string {
		leaf, err := x509.ParseCertificate(c.ConfigAt(now).Certificates[0].Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		return leaf.Subject.CommonName
	}
	if name() != "first" || c.ConfigAt(now).MinVersion != tls.VersionTLS13 {
		t.Error(name())
	}
	config := c.ConfigAt(now)
	second, _ := certificate(t, "second")
	pair(t, f, second)
	if now = now.Add(certificatesEvery / 2); name() != "first" {
		t.Error("looked too often")
	}
	if now = now.Add(certificatesEvery); name() != "second" || len(told) != 1 || told[0] != nil {
		t.Error(name(), told)
	}
	write(t, f.Cert, "nonsense")
	for range 3 { // told once
		if now = now.Add(certificatesEvery); name() != "second" {
			t.Error(name())
		}
	}
	if len(told) != 2 || told[1] == nil {
		t.Error(told)
	}
	if err := os.Remove(f.Key); err != nil {
		t.Fatal(err)
	}
	if now = now.Add(certificatesEvery); name() != "second" || len(told) != 3 || told[2] == nil {
		t.Error(name(), told)
	}
	third, _ := certificate(t, "third")
	pair(t, f, third)
	if now = now.Add(certificatesEvery); name() != "third" || len(told) != 4 || told[3] != nil {
		t.Error(name(), told)
	}
	// Nothing changed, nothing is made anew: sessions go on.
	if now = now.Add(certificatesEvery); c.ConfigAt(now) != c.ConfigAt(now.Add(time.Hour)) || c.ConfigAt(now) == config {
		t.Error("a configuration was made without need")
	}
}

func TestCertificatesServe(t *testing.T) {
	dir := t.TempDir()
	f := CertificateFiles{Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key"), ClientCA: filepath.Join(dir, "cert"), MinVersion: tls.VersionTLS13}
	cert, pool := certificate(t, "localhost")
	pair(t, f, cert)
	c, err := LoadCertificates(f, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := open(t, Config{Handler: silent(t), TLS: c.Config()})
	for most, ok := range map[uint16]bool{tls.VersionTLS12: false, tls.VersionTLS13: true} {
		err := tls.Client(h.dial(t), &tls.Config{RootCAs: pool, ServerName: "localhost", MinVersion: tls.VersionTLS12, MaxVersion: most}).HandshakeContext(t.Context())
		if (err == nil) != ok {
			t.Errorf("%x: %v", most, err)
		}
	}
	f.ClientCA = f.Key
	if _, err := LoadCertificates(f, nil); err == nil {
		t.Error("a key passes for an authority")
	}
}
