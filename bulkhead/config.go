package bulkhead

import (
	"errors"
	"fmt"
	"time"
)

// maxLimit bounds the memory of permits (16 bytes each, taken as the number of
// calls at once grows) and maxQueue that of waiters.
const (
	maxLimit = 1 << 20
	maxQueue = 1 << 20
)

// Config says how many may enter and wait. The zero value admits nothing.
type Config struct {
	// Limit is how many permits may be held at once, up to 1,048,576; 0 admits
	// nothing.
	Limit int
	// Queue is how many callers may wait for a permit, up to 1,048,576; 0 means
	// that nobody waits.
	Queue int
	// MaxWait is how long a caller may wait; 0 means as long as its context lives.
	MaxWait time.Duration
	// Trace is told what happens.
	Trace Trace
}

// Trace is a set of hooks; nil ones are not called. They are called from the
// goroutine that asked, outside all locks, and must not block.
type Trace struct {
	// Waited is called when a wait ends, with or without a permit.
	Waited func(d time.Duration, admitted bool)
	// Refused is called for every call that got no permit.
	Refused func(e *FullError)
}

// New makes a Bulkhead. The error joins all problems of c.
func New(c Config) (*Bulkhead, error) {
	var problems []error
	bad := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("bulkhead: "+format, args...))
	}
	if c.Limit < 0 || c.Limit > maxLimit {
		bad("Limit: %d is not within 0 and %d; give the number of calls that the destination bears at once", c.Limit, maxLimit)
	}
	if c.Queue < 0 || c.Queue > maxQueue {
		bad("Queue: %d is not within 0 and %d; 0 means that nobody waits", c.Queue, maxQueue)
	}
	if c.MaxWait < 0 {
		bad("MaxWait: %v is negative; 0 waits as long as the context lives", c.MaxWait)
	}
	if problems != nil {
		return nil, errors.Join(problems...)
	}
	return &Bulkhead{config: c}, nil
}
