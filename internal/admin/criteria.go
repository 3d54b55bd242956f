package admin

import (
	"errors"
	"strings"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate/identity"
)

// The errors do not repeat what they refuse: who misreads the key puts a
// credential there, and errors are logged.
var (
	errNoClient  = errors.New("shed: the client can match nobody: use a name of clients.names, or the 16 hexadecimal digits that comporta who shows; never the key itself")
	errNoVersion = errors.New("shed: the version can match nothing: use a client's name, acme-app, or name/major.minor.patch, acme-app/2.3.0")
)

// checkCriteria refuses what can match nothing, and replaces it with words that can
// be written down. It spells hashes as the gate does.
func (a *api) checkCriteria(req *ShedRequest) error {
	var noClient, noVersion error
	switch {
	case req.Client == "", a.Known != nil && a.Known(req.Client):
	case isHash(req.Client):
		req.Client = strings.ToLower(req.Client)
	default:
		req.Client, noClient = "(not a name)", errNoClient
	}
	if req.Version != "" && !isVersion(req.Version) {
		req.Version, noVersion = "(not a version)", errNoVersion
	}
	return errors.Join(noClient, noVersion)
}

func isHash(text string) bool {
	_, ok := identity.ParseKey(text)
	return ok
}

// isVersion reports whether text is the name of a client program, alone or with a
// version. The parser forgives spaces, which a comparison would not.
func isVersion(text string) bool {
	if !strings.Contains(text, "/") {
		text += "/1.0.0"
	}
	_, ok := comporta.ParseClientVersion(text)
	return ok && strings.TrimSpace(text) == text
}
