package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/comporta/comporta/gate/identity/jwtidentity"
)

// reload reads the configuration again, compiles a new gate over the same state,
// binds what is new, and swaps. When anything fails the old one goes on.
func (a *app) reload() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.exchange()
	a.tel.Reloaded(err == nil)
	return err
}

func (a *app) exchange() error {
	c, warnings, err := a.load()
	if err != nil {
		return err
	}
	a.warn(warnings)
	old := a.current.Load()
	if fixed := needsRestart(old.config, c); len(fixed) > 0 {
		return fmt.Errorf("comporta: these keys take effect at a restart only, so nothing was changed: %v", fixed)
	}
	k, err := compile(c, a.state, a.tel, a.log)
	if err != nil {
		return err
	}
	if err := a.listeners.change(c); err != nil {
		k.proxy.Close()
		return err
	}
	a.jwks.start(k.jwks)
	a.current.Store(k)
	a.tel.Watch(k.gate)
	// Requests of the old gate go on with the old proxy; only its idle
	// connections are closed.
	old.proxy.Close()
	a.log.Info("reloaded")
	return nil
}

// tryReload reloads for somebody who does not wait for the answer.
func (a *app) tryReload(why string) {
	if err := a.reload(); err != nil {
		a.log.Error("reload failed, the old configuration goes on", "why", why, "error", err.Error())
	}
}

// watchEvery is how often a watched file is looked at. Mounted files change by a
// rename of a directory above them, which notifications of the file miss.
const watchEvery = time.Second

// watch tells of every change of the file, while the configuration says so. It
// returns when ctx ends.
func (a *app) watch(ctx context.Context, changed chan<- struct{}) {
	seen := look(a.file)
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := look(a.file)
		if now != seen && a.current.Load().config.Reload.Watch {
			select {
			case changed <- struct{}{}:
			default: // one is waiting already
			}
		}
		seen = now
	}
}

type glimpse struct {
	modified time.Time
	size     int64
	there    bool
}

func look(file string) glimpse {
	info, err := os.Stat(file) // follows links: a ConfigMap is one
	if err != nil {
		return glimpse{}
	}
	return glimpse{info.ModTime(), info.Size(), true}
}

// background runs the fetchers of JWKS documents, one set at a time.
type background struct {
	mu     sync.Mutex
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup
}

// start runs a set in place of the one before.
func (b *background) start(sets []*jwtidentity.Keys) {
	b.stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	ctx, cancel := context.WithCancelCause(context.Background())
	b.cancel = cancel
	for _, k := range sets {
		b.wg.Go(func() { _ = k.Run(ctx) }) // returns when ctx ends; failures are told to Fetched
	}
}

// stop ends the set and waits for it.
func (b *background) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cancel != nil {
		b.cancel(errReplaced)
		b.wg.Wait()
		b.cancel = nil
	}
}

var errNoListener = errors.New("comporta: there is nothing to listen on")
