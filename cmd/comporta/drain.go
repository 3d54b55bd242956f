package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/front"
)

// drain ends the service in stages: say no to the probes; let the load balancer
// look; stop accepting and wait for what runs; cancel what does not end. The next
// signal skips to the cancelling, and one more ends the wait for the cancelled.
func (a *app) drain(again <-chan os.Signal) error {
	a.reloading.Lock()
	a.draining = true
	a.reloading.Unlock()
	a.ready.Store(false)
	d := a.current.Load().config.Drain
	a.log.Info("draining", "delay", d.Delay.String(), "soft", d.Soft.String(), "hard", d.Hard.String())
	err := a.drainSoftly(d.Delay, d.Soft, again)
	a.cancel(errDraining) // what still runs is told to end
	if err != nil {
		err = a.drainHard(d.Hard, again)
	}
	a.fetchers.stop()
	a.checker.change(nil)
	a.closeStores()
	a.closeKeys()
	err = errors.Join(err, a.side.close())
	a.listeners.wait()
	a.current.Load().proxy.Close()
	a.log.Info("stopped")
	return err
}

// errTooLate refuses who asks when what runs is being cancelled.
var errTooLate = &front.Fault{
	Reason: comporta.Draining, Status: comporta.Draining.Info().Status, Detail: "the gateway is shutting down, and did not begin with this request",
}

// drainSoftly returns nil when every request ended by itself.
func (a *app) drainSoftly(delay, soft time.Duration, again <-chan os.Signal) error {
	patience, stop := untilSignal(again)
	defer stop()
	if delay > 0 && !a.idle() {
		pause(patience, delay)
	}
	ctx, cancel := context.WithTimeout(patience, soft)
	defer cancel()
	return a.listeners.shutdown(ctx)
}

func (a *app) drainHard(hard time.Duration, again <-chan os.Signal) error {
	patience, stop := untilSignal(again)
	defer stop()
	ctx, cancel := context.WithTimeout(patience, hard)
	defer cancel()
	if err := a.listeners.shutdown(ctx); err != nil {
		if a.handling.Load() == 0 { // what is left has nothing to lose
			return a.listeners.close()
		}
		return errors.Join(fmt.Errorf("comporta: requests were cut off by the end of the drain: %w", context.Cause(ctx)), a.listeners.close())
	}
	return nil
}

// idle reports whether nobody has been served lately: then there is nothing to
// wait for, and no load balancer that should look first.
func (a *app) idle() bool {
	return a.handling.Load() == 0 && a.current.Load().gate.StatsAt(time.Now()).Traffic.Requests == 0
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

var errSignal = errors.New("comporta: another signal")

// untilSignal returns a context that ends at the next signal. stop releases it and
// leaves the signals after that to others.
func untilSignal(signals <-chan os.Signal) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-signals:
			cancel(errSignal)
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel(nil)
		wg.Wait()
	}
}
