package telemetry

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate/identity"
	"github.com/comporta/comporta/internal/topk"
)

// TopClient is one of the clients that ask most.
type TopClient struct {
	Client string // readable name, or the keyed hash of its identity
	Kind   comporta.Kind
	Total  uint64 // since the start, at most Error too high
	Recent uint64 // of it, within the last one to two minutes
	Error  uint64
}

type clientKind struct {
	key  uint64
	name string
	kind comporta.Kind
}

// topClients finds the heaviest clients of each kind of request. What is recent
// is told by the difference to what the sketch held a minute or two ago.
type topClients struct {
	shown  int
	sketch *topk.Sketch[clientKind]
	minute atomic.Int64

	mu           sync.Mutex
	before, last map[clientKind]uint64
}

// oversize makes the sketch larger than what is shown, so that what is shown is right.
const oversize = 8

func newTopClients(shown int) *topClients {
	return &topClients{shown: shown, sketch: topk.New[clientKind](shown * oversize)}
}

func (t *topClients) countAt(now time.Time, r *comporta.Request) {
	t.turnAt(now)
	t.sketch.Add(clientKind{r.Client.Key, r.Client.Name, r.Sighting.Kind})
}

// turnAt remembers the counts once a minute.
func (t *topClients) turnAt(now time.Time) {
	minute := now.Unix() / 60
	was := t.minute.Load()
	if minute == was || !t.minute.CompareAndSwap(was, minute) {
		return
	}
	counts := make(map[clientKind]uint64, t.shown*oversize)
	for _, item := range t.sketch.Top(t.shown * oversize) {
		counts[item.Key] = item.Count
	}
	t.mu.Lock()
	t.before, t.last = t.last, counts
	if minute-was > 1 { // nothing was asked for a while
		t.before = counts
	}
	t.mu.Unlock()
}

// list returns the n heaviest since the start.
func (t *topClients) list(n int) []TopClient {
	items := t.sketch.Top(min(n, t.shown))
	t.mu.Lock()
	before := t.before
	t.mu.Unlock()
	list := make([]TopClient, len(items))
	for i, item := range items {
		was, held := before[item.Key]
		if !held {
			was = item.Error
		}
		list[i] = TopClient{nameOf(item.Key), item.Key.kind, item.Count, item.Count - min(was, item.Count), item.Error}
	}
	return list
}

func nameOf(k clientKind) string {
	if k.name != "" {
		return k.name
	}
	return identity.KeyString(k.key)
}
