package main

import (
	"context"
	"sync"

	"github.com/comporta/comporta/gate/identity/jwtidentity"
)

// keySets are the issuers' keys by the URL of their document. They outlive a
// reload: else every token would be unknown until the first fetch of the new one.
type keySets map[string]*jwtidentity.Keys

// fetchers keep key sets fresh, off the way of requests. The zero value has none.
type fetchers struct {
	mu      sync.Mutex
	running map[*jwtidentity.Keys]context.CancelCauseFunc
	wg      sync.WaitGroup
}

// change runs the fetchers of sets, and ends the others.
func (f *fetchers) change(sets keySets) {
	f.mu.Lock()
	defer f.mu.Unlock()
	wanted := make(map[*jwtidentity.Keys]context.CancelCauseFunc, len(sets))
	for _, k := range sets {
		if cancel, ok := f.running[k]; ok {
			wanted[k] = cancel
			delete(f.running, k)
			continue
		}
		ctx, cancel := context.WithCancelCause(context.Background())
		wanted[k] = cancel
		f.wg.Go(func() { _ = k.Run(ctx) }) // returns when ctx ends; failures are told to Fetched
	}
	for _, cancel := range f.running {
		cancel(errReplaced)
	}
	f.running = wanted
}

// stop ends all and waits for them.
func (f *fetchers) stop() {
	f.change(nil)
	f.wg.Wait()
}
