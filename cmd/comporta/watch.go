package main

import (
	"context"
	"os"
	"time"
)

// watchEvery is how often a watched file is looked at. Mounted files change by a
// rename of a directory above them, which notifications of the file miss.
const watchEvery = time.Second

// watch tells of every change of the file, while the configuration says so. It
// returns when ctx ends.
func (a *app) watch(ctx context.Context, changed chan<- struct{}) {
	if a.file == "" {
		return
	}
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := look(a.file)
		if now != a.seen && a.current.Load().config.Reload.Watch {
			select {
			case changed <- struct{}{}:
			default: // one is waiting already
			}
		}
		a.seen = now
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
