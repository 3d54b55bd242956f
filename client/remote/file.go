package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/comporta/comporta/internal/retrypolicy"
)

// kept is the content of the file: a document, and where it is from, so that a
// file which another service's client left behind is not mistaken for ours.
type kept struct {
	URL      string          `json:"url"`
	ETag     string          `json:"etag,omitempty"`
	Document json.RawMessage `json:"document"`
}

// maxFile is the longest file that is read: a document and what stands around it.
const maxFile = retrypolicy.MaxSize + 8<<10

// restore puts the document of the file in force. Whatever is wrong with the
// file, the client goes on without it.
func (s *Switch) restore() {
	data, err := readFile(s.config.File)
	if errors.Is(err, fs.ErrNotExist) {
		return // the first start
	}
	var k kept
	if err == nil {
		err = json.Unmarshal(data, &k)
	}
	if err == nil && k.URL != s.config.URL {
		return
	}
	if err == nil {
		if len(k.ETag) > maxETag {
			k.ETag = ""
		}
		err = s.apply(string(k.Document), k.ETag, true)
	}
	if err != nil {
		s.failed(fmt.Errorf("remote: reading %s: %w", s.config.File, err))
	}
}

func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("it has more than %d bytes", maxFile)
	}
	return data, err
}

// save replaces the file as a whole: whoever reads it, after whatever crash,
// finds the old document or the new one.
func (s *Switch) save(document, etag string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("remote: keeping the document: %w", err)
		}
	}()
	data, err := json.Marshal(kept{s.config.URL, etag, json.RawMessage(document)})
	if err != nil {
		return err
	}
	dir := filepath.Dir(s.config.File)
	f, err := os.CreateTemp(dir, "."+filepath.Base(s.config.File)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), s.config.File)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDir(dir)
}

// syncDir makes a rename last through a loss of power, where folders can be
// synced.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	_ = d.Sync() // some file systems cannot; the rename is then as good as it gets
	return d.Close()
}
