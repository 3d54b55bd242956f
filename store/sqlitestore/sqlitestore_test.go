package sqlitestore_test

import (
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/comporta/comporta/store"
	"github.com/comporta/comporta/store/sqlitestore"
	"github.com/comporta/comporta/store/storetest"
)

func TestKeys(t *testing.T) {
	defer goleak.VerifyNone(t)
	storetest.Keys(t, storetest.Features{}, func(t testing.TB) storetest.Engine {
		path := filepath.Join(t.TempDir(), "state.db")
		return storetest.Engine{Open: func(t testing.TB) store.Keys {
			s, err := sqlitestore.Open(t.Context(), sqlitestore.Config{Path: path})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}}
	})
}
