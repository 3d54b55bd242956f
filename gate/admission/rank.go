package admission

import "github.com/comporta/comporta"

// rank orders requests; a lower one goes first.
type rank uint8

// The first three ranks are in use only while an attack goes on: then whoever is
// believed goes before originals of those who are not, whatever it asks.
const (
	rankBelieved rank = iota
	rankBelievedBooked
	rankBelievedRetry
	rankOriginal
	rankAged
	rankRedeemed
	rankRetry
	rankDisobedient
	numRanks
)

// isOriginal reports whether requests of the rank are first attempts.
func (k rank) isOriginal() bool { return k == rankBelieved || k == rankOriginal }

// isBooked reports whether requests of the rank come at an instant that they were given.
func (k rank) isBooked() bool {
	return k == rankBelievedBooked || k == rankAged || k == rankRedeemed
}

// mayWait reports whether requests of the rank may stand in the queue. Plain
// repeats have an instant to come back at instead. A believed one may, during an
// attack: permits are handed from hand to hand then, so that who cannot wait
// cannot go before anybody.
func (k rank) mayWait() bool { return k <= rankRedeemed }

// rankOf ranks a request by what the stages before wrote on it. A repeat is
// ranked as one only on evidence that may cost its client something; a slot
// alone demotes nobody, since operations of one client with different bodies
// share it.
func rankOf(r *comporta.Request, attack bool) rank {
	believed := attack && r.Client.Class.Believed() && !r.Slot.Disobedient
	accused := r.Sighting.Kind.Repeat() && r.Sighting.Evidence > comporta.EvidenceShared
	if !accused && !r.Slot.Crowding {
		if believed {
			return rankBelieved
		}
		return rankOriginal
	}
	aged, redeemed := r.Slot.State == comporta.SlotAged, r.Slot.State == comporta.SlotRedeemed
	switch {
	case believed && (aged || redeemed):
		return rankBelievedBooked
	case believed:
		return rankBelievedRetry
	case aged:
		return rankAged
	case redeemed:
		return rankRedeemed
	case r.Slot.Disobedient:
		return rankDisobedient
	}
	return rankRetry
}

// Lines, in percent of the limit (or of what a route may hold).
const (
	// earlyLine: a repeat before its instant, or of a client that keeps coming
	// early, enters below it only, so that those who come at theirs find room.
	// They may wait, too: that is why so little is kept.
	earlyLine = 98
	// shedLine: sheddable requests leave the rest of a route to the others.
	shedLine = 92
)

// below returns the greatest n with n < percent% of limit, and 0 at least.
func below(percent, limit int) int { return max(percent*limit-1, 0) / 100 }
