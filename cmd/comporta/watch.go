package main

import (
	"context"
	"os"
	"time"
)

// watchEvery is how often a watched file is looked at. Mounted files change by a
// rename of a directory above them, which notifications of the file miss.
const watchEvery = time.Second

// watch looks at the files until ctx ends. A change of the configuration is told,
// while the configuration says so; a change of the policy document is published
// at once: it is what an operator writes in an incident.
func (a *app) watch(ctx context.Context, changed chan<- struct{}) {
	var policy glimpse
	if k := a.current.Load(); k.policy != nil {
		policy = look(k.config.RetryPolicy.File)
	}
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		k := a.current.Load()
		if a.file != "" {
			now := look(a.file)
			if now != a.seen && k.config.Reload.Watch {
				select {
				case changed <- struct{}{}:
				default: // one is waiting already
				}
			}
			a.seen = now
		}
		if k.policy != nil {
			now := look(k.config.RetryPolicy.File)
			if now != policy {
				a.publish(k)
			}
			policy = now
		}
	}
}

// publish reads the policy document again. One with problems leaves the old one
// in place.
func (a *app) publish(k *compiled) {
	switch changed, err := k.policy.Reload(); {
	case err != nil:
		a.log.Error("the policy document has problems, the old one stays", "file", k.config.RetryPolicy.File, "error", err.Error())
	case changed:
		a.log.Info("policy document published", "file", k.config.RetryPolicy.File, "version", k.policy.Version())
	}
}

// glimpse is what tells one state of a file from another.
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
