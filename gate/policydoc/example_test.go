package policydoc_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/comporta/comporta/gate/overload"
	"github.com/comporta/comporta/gate/policydoc"
)

// The document goes before the gate: it is answered whoever asks, and however
// full the house is.
func ExampleHandler() {
	dir, err := os.MkdirTemp("", "policydoc")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "policy.json")
	if err = os.WriteFile(file, []byte(`{"version": 7, "max_attempts": 1}`), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	writer, err := overload.New(overload.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	document, err := policydoc.New(policydoc.Config{File: file, Writer: writer})
	if err != nil {
		fmt.Println(err) // all problems of the file, with their lines
		return
	}
	mux := http.NewServeMux()
	mux.Handle(policydoc.Path, document)

	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, policydoc.Path, http.NoBody))
	fmt.Println(w.Code, w.Body)
	// Output:
	// 200 {"version":7,"max_attempts":1}
}
