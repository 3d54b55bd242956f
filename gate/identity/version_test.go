package identity

import (
	"strings"
	"testing"

	"github.com/comporta/comporta"
)

func TestMinimumVersions(t *testing.T) {
	minimum := map[string]string{"acme-go": "2.1.0", "acme-js": "3.0.0-rc.2"}
	optional := mustNew(t, Config{MinimumVersion: minimum}, nil)
	required := mustNew(t, Config{MinimumVersion: minimum, RequireVersion: true}, nil)
	only := mustNew(t, Config{RequireVersion: true}, nil)
	none := mustNew(t, Config{}, nil)
	const both = "acme-go/2.1.0, acme-js/3.0.0-rc.2"
	for _, tc := range []struct {
		id      *Identifier
		sent    string
		state   VersionState
		minimum string
		refused bool
	}{
		{optional, "acme-go/2.0.9", VersionTooOld, "acme-go/2.1.0", true},
		{optional, "acme-go/2.1.0", VersionFine, "", false},
		{optional, "acme-go/2.1.0-beta", VersionTooOld, "acme-go/2.1.0", true},
		{optional, "acme-go/10.0.0", VersionFine, "", false},
		{optional, "acme-js/3.0.0-rc.1", VersionTooOld, "acme-js/3.0.0-rc.2", true},
		{optional, "acme-js/3.0.0-rc.10", VersionFine, "", false},
		{optional, "other/0.0.1", VersionUnlimited, "", false},
		{optional, "", VersionAbsent, "", false},
		{optional, "acme-go", VersionAbsent, "", false},
		{optional, "acme-go/one", VersionAbsent, "", false},
		{required, "", VersionMissing, both, true},
		{required, "garbage", VersionMissing, both, true},
		{required, "other/1.0.0", VersionUnlimited, "", false},
		{required, "acme-go/2.1.0", VersionFine, "", false},
		{only, "", VersionMissing, "", true},
		{only, "a/1.0.0", VersionUnlimited, "", false},
		{none, "", VersionUnlimited, "", false},
		{none, "acme-go/0.0.1", VersionUnlimited, "", false},
	} {
		r := request("192.0.2.1", "Client-Version", tc.sent)
		comporta.Signals{}.Read(r.Header, r)
		state, least := tc.id.CheckVersion(r)
		if state != tc.state || least != tc.minimum || state.Refused() != tc.refused {
			t.Errorf("%q: %v %q %v, want %v %q", tc.sent, state, least, state.Refused(), tc.state, tc.minimum)
		}
	}
	r := request("192.0.2.1")
	r.Version = comporta.ClientVersion{Name: "acme-go", Major: 1}
	if n := testing.AllocsPerRun(100, func() { optional.CheckVersion(r) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzMinimumVersion: a configuration is refused, or is a minimum that its own
// version passes.
func FuzzMinimumVersion(f *testing.F) {
	for _, s := range []string{"acme-go/2.1.0", "a/1", "a/1.2.3-rc.1+build", "/1.0.0", "a b/1", "a/ 1.0 ", "a/1-"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		name, version, _ := strings.Cut(s, "/")
		id, err := New(Config{MinimumVersion: map[string]string{name: version}, HashKey: testKey}, nil)
		if err != nil {
			if !strings.Contains(err.Error(), "MinimumVersion") {
				t.Errorf("%q: %v", s, err)
			}
			return
		}
		r := request("192.0.2.1", "Client-Version", s)
		comporta.Signals{}.Read(r.Header, r)
		if state, _ := id.CheckVersion(r); state != VersionFine {
			t.Errorf("%q as its own minimum: %v", s, state)
		}
	})
}
