package measure

import (
	"slices"
	"time"
)

// Pair is like against like.
type Pair struct {
	Target       string // its name
	What         string // the rival and what of it
	Ours, Theirs *Subject
}

// All measures all subjects, round by round.
func All(rounds int, round time.Duration, alone []*Subject, pairs []Pair) error {
	subjects := alone
	for _, p := range pairs {
		subjects = append(slices.Clip(subjects), p.Ours, p.Theirs)
	}
	for _, s := range subjects {
		if err := s.calibrate(round); err != nil {
			return err
		}
	}
	for i := range rounds {
		for _, s := range turn(i, alone, pairs) {
			if err := s.measure(); err != nil {
				return err
			}
		}
	}
	return nil
}

// turn is the order of a round: the two of a pair are neighbours, and take turns
// in being first.
func turn(round int, alone []*Subject, pairs []Pair) []*Subject {
	order := append([]*Subject(nil), alone...)
	for _, p := range pairs {
		if round%2 == 0 {
			order = append(order, p.Ours, p.Theirs)
		} else {
			order = append(order, p.Theirs, p.Ours)
		}
	}
	return order
}
