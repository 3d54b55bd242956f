//go:build integration

package test

import (
	"net/http"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// ticket is what a refused client holds.
type ticket struct {
	text string
	due  time.Time
}

const operation = "/orders?id=7"

// refused fills the gateway, asks, and returns the ticket of the refusal.
func (g *gateway) refused(t *testing.T) ticket {
	t.Helper()
	release := g.hold(t, 1)
	defer release()
	res, body := g.get(t, operation, "X-Api-Key", "acme-key")
	ms, err := strconv.Atoi(res.Header.Get("Retry-After-Ms"))
	if res.StatusCode != http.StatusServiceUnavailable || err != nil || res.Header.Get("Retry-Ticket") == "" {
		t.Fatalf("%s %v\n%s", res.Status, res.Header, body)
	}
	return ticket{res.Header.Get("Retry-Ticket"), time.Now().Add(time.Duration(ms) * time.Millisecond)}
}

// come waits for the instant and asks again.
func (g *gateway) come(t *testing.T, k ticket) {
	t.Helper()
	select {
	case <-time.After(time.Until(k.due)):
	case <-t.Context().Done():
	}
	if res, body := g.get(t, operation, "X-Api-Key", "acme-key", "Retry-Ticket", k.text); res.StatusCode != http.StatusOK {
		t.Errorf("%s\n%s", res.Status, body)
	}
}

func keyFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys")
	write(t, file, "a key of at least thirty-two characters\n")
	return file
}

const ticketed = "admission: {capacity: 1, queue_wait: 0}\nslots: {base: 300ms}\n"

// A restart honours tickets: nothing but the key file is kept.
func TestTicketAfterRestart(t *testing.T) {
	text := ticketed + "keys: {file: " + keyFile(t) + "}\n"
	before := configured(t, text)
	k := before.refused(t)
	before.stop(t)
	after := configured(t, text)
	after.come(t, k)
	if got := after.metric(t, "comporta_slots_redeemed_total"); got != 1 {
		t.Errorf("%v slots redeemed, want 1", got)
	}

	// Used is used.
	after.come(t, k)
	if got := after.metric(t, `comporta_tickets_ignored_total{why="used"}`); got != 1 {
		t.Errorf("%v used tickets ignored, want 1", got)
	}
}

// Two gateways with one key file honour each other's tickets; one with another key
// counts a stranger's, and serves all the same.
func TestTicketOfAReplica(t *testing.T) {
	text := ticketed + "keys: {file: " + keyFile(t) + "}\n"
	one, two := configured(t, text), configured(t, text)
	two.come(t, one.refused(t))
	one.come(t, two.refused(t))
	for _, g := range []*gateway{one, two} {
		if got := g.metric(t, "comporta_slots_redeemed_total"); got != 1 {
			t.Errorf("%v slots redeemed, want 1", got)
		}
	}
	stranger := configured(t, ticketed)
	stranger.come(t, one.refused(t))
	if got := stranger.metric(t, "comporta_slots_redeemed_total"); got != 0 {
		t.Errorf("%v slots redeemed with a stranger's ticket", got)
	}
	if got := stranger.metric(t, `comporta_tickets_ignored_total{why="foreign"}`) + stranger.metric(t, `comporta_tickets_ignored_total{why="forged"}`); got != 1 {
		t.Errorf("%v tickets ignored, want 1", got)
	}
}
