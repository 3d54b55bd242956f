package main

import (
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate/admission"
	"github.com/comporta/comporta/gate/admission/seek"
	"github.com/comporta/comporta/gate/identity"
	"github.com/comporta/comporta/gate/repeat"
)

// parts are what the target admit_ns names: identity, repeat, admission and
// release, in the order in which the gate uses them and with its defaults. The
// whole decision adds the other signals of the contract, the slot, the verdict
// and the counters.
type parts struct {
	identifier *identity.Identifier
	table      *repeat.Table
	detector   *repeat.Detector
	admission  *admission.Controller
}

func newParts() (decider, error) {
	limit, err := seek.New(seek.Config{})
	if err != nil {
		return nil, err
	}
	p := &parts{}
	if p.admission, err = admission.New(admission.Config{Learner: limit, QueueWait: 100 * time.Millisecond}, new(admission.State)); err != nil {
		return nil, err
	}
	if p.identifier, err = identity.New(identity.Config{}, identity.NewProven(provenBytes)); err != nil {
		return nil, err
	}
	if p.table, err = repeat.NewTable(repeatBytes); err != nil {
		return nil, err
	}
	p.detector, err = repeat.New(repeat.Config{}, p.table)
	return p, err
}

func (p *parts) decide(now time.Time, r *comporta.Request) error {
	p.identifier.NameAt(now, r)
	p.detector.Prepare(r)
	p.identifier.RankAt(now, r)
	p.detector.SeeAt(now, r, 0, false)
	grant := p.admission.AdmitAt(now, r, admission.View{})
	if !grant.Admitted() {
		return errRefused
	}
	p.detector.ResolveAt(now, r, answered)
	p.identifier.ProveAt(now, r)
	grant.Permit.ReleaseAt(now, answered)
	return nil
}

func (p *parts) forgotten() uint64 { return p.table.Evictions() }
