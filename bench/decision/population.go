package main

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"github.com/comporta/comporta"
)

const (
	keyLength = 24
	numPaths  = 4096
)

// population is who asks for what: operation i is asked by client i mod clients
// for path i / clients. All texts exist before anything is measured.
type population struct {
	keys    string // of all clients, end to end: one object, whatever their number
	clients int
	paths   []string
}

func newPopulation(clients int) *population {
	p := &population{clients: clients, paths: make([]string, numPaths)}
	var keys strings.Builder
	keys.Grow(clients * keyLength)
	for i := range clients {
		fmt.Fprintf(&keys, "client-%016x.", spread(i))
	}
	p.keys = keys.String()
	for i := range p.paths {
		p.paths[i] = fmt.Sprintf("/v1/orders/%d", 1000+i)
	}
	return p
}

// spread turns a counter into a number without a pattern, each into its own.
func spread(i int) uint64 { return uint64(i+1) * 0x9e3779b97f4a7c15 }

// asker is one request that is used for one operation after the other, as a
// transport's face would use it.
type asker struct {
	*population

	r   comporta.Request
	key []string // the value of its X-Api-Key
}

func (p *population) asker() *asker {
	a := &asker{population: p, key: []string{""}}
	a.r = comporta.Request{
		Method: http.MethodGet, Host: "api.example", Query: "expand=items", Remote: netip.MustParseAddr("192.0.2.7"),
		ID: "5e9a0d1c77f24b8e", Header: header(a.key),
	}
	return a
}

// header is what a client sends, in the usual size.
func header(key []string) http.Header {
	return http.Header{
		"Accept": {"application/json"}, "Accept-Encoding": {"gzip"}, "Accept-Language": {"pt-BR"},
		"Content-Type": {"application/json"}, "Retry-Attempt": {"0"}, "User-Agent": {"acme-go/2.1.0"},
		"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, "X-Api-Key": key,
	}
}

// ask makes the request that of operation i. Only what the stages have written
// is cleared: a new head is the transport's expense.
func (a *asker) ask(i int) *comporta.Request {
	c := i % a.clients
	a.key[0] = a.keys[c*keyLength : (c+1)*keyLength]
	a.r.Path = a.paths[i/a.clients%numPaths]
	a.r.Client, a.r.Sighting, a.r.Slot = comporta.Client{}, comporta.Sighting{}, comporta.Slot{}
	return &a.r
}
