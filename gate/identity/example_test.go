package identity_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate/identity"
)

func ExampleIdentifier() {
	id, err := identity.New(identity.Config{
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		HashKey:        [16]byte([]byte("shared-by-fleet!")),
	}, identity.NewProven(0))
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	r := &comporta.Request{
		Remote: netip.MustParseAddr("10.0.0.1"),
		Header: http.Header{
			"X-Forwarded-For": {"9.9.9.9, 203.0.113.7, 10.0.0.9"}, // the first is what the client wrote itself
			"X-Api-Key":       {"k-4711"},
			"X_forwarded_for": {"6.6.6.6"},
		},
	}

	id.Clean(r.Header, id.Trusted(r.Remote))
	id.IdentifyAt(now, r)
	fmt.Println(identity.KeyString(r.Client.Key), r.Client.Addr, r.Client.Class, len(r.Header))

	id.ProveAt(now, r) // the service answered below 400
	id.IdentifyAt(now.Add(23*time.Hour), r)
	fmt.Println(r.Client.Class)
	// Output:
	// c054768bf3ec4c18 203.0.113.7 anonymous 2
	// proven
}
