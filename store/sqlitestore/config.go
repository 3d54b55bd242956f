package sqlitestore

import (
	"errors"
	"fmt"
	"time"
)

// Config says where the state lies. Path is required; every other zero value is
// a default.
type Config struct {
	// Path names the file. Its directory must exist and be writable, on a
	// filesystem of this machine.
	Path string
	// MaxBytes bounds the file, 1 MiB to 1 TiB; 0 means 16 GiB. What is full takes
	// no new claims; an eighth beyond it is kept for the answers of those that run.
	MaxBytes int64
	// Readers is how many calls may read at once, 1 to 64; 0 means 4.
	Readers int
	// Busy is how long to wait for another program that has the file locked, 1 ms
	// to 1 min; 0 means 2 s. Everybody waits meanwhile.
	Busy time.Duration
	// AnyFilesystem takes a filesystem that SQLite is not known to be safe on.
	AnyFilesystem bool
}

// What the zero values of Config mean.
const (
	DefaultMaxBytes = 16 << 30
	DefaultReaders  = 4
	DefaultBusy     = 2 * time.Second
)

// Bounds of what a configuration may ask for.
const (
	minBytes, maxBytes = 1 << 20, 1 << 40
	maxReaders         = 64
	minBusy, maxBusy   = time.Millisecond, time.Minute
)

func orDefault[T comparable](v *T, otherwise T) {
	var zero T
	if *v == zero {
		*v = otherwise
	}
}

func (c Config) withDefaults() Config {
	orDefault(&c.MaxBytes, DefaultMaxBytes)
	orDefault(&c.Readers, DefaultReaders)
	orDefault(&c.Busy, DefaultBusy)
	return c
}

// Check says everything that is wrong with a configuration, without touching a
// file.
func (c Config) Check() error {
	c = c.withDefaults()
	var problems []error
	bad := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("sqlitestore: "+format, args...))
	}
	if c.Path == "" {
		bad("Path is empty: name the file that holds the state, as in /var/lib/comporta/state.db")
	}
	if c.MaxBytes < minBytes || c.MaxBytes > maxBytes {
		bad("MaxBytes: %d is not within %d and %d; leave it out for %d", c.MaxBytes, int64(minBytes), int64(maxBytes), int64(DefaultMaxBytes))
	}
	if c.Readers < 1 || c.Readers > maxReaders {
		bad("Readers: %d is not within 1 and %d; leave it out for %d", c.Readers, maxReaders, DefaultReaders)
	}
	if c.Busy < minBusy || c.Busy > maxBusy {
		bad("Busy: %v is not within %v and %v; leave it out for %v", c.Busy, minBusy, maxBusy, DefaultBusy)
	}
	return errors.Join(problems...)
}
