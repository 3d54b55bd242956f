package clienttest_test

import (
	"net/http"
	"testing"

	"github.com/comporta/comporta/client"
	"github.com/comporta/comporta/client/clienttest"
)

// What the module asks of others it asks of its own client.
func TestTheEnvelopePasses(t *testing.T) {
	envelope, err := client.New(client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	clienttest.Run(t, &http.Client{Transport: envelope.Transport(transport)})
}
