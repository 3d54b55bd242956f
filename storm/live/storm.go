package live

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/comporta/comporta/storm"
)

// Storm sends a scenario's population to a URL.
type Storm struct {
	Scenario storm.Scenario
	// URL is the root of what is asked, without a slash at its end.
	URL string
	// Transport carries the requests. It should repeat nothing by itself.
	Transport http.RoundTripper
	// Dependency is called when the outage begins and when it ends.
	Dependency func(down bool)
	// Watch, if set, is called every Interval with what was seen so far, from
	// one goroutine at a time. The storm does not wait for it to be ready.
	Watch func(*Recording)
}

// errSpent ends a storm that has sent all that it may.
var errSpent = errors.New("live: the storm has sent all that it may")

// errOver ends what a storm started when its length is over.
var errOver = errors.New("live: the storm is over")

// run is a Storm while it runs.
type run struct {
	*Storm

	record  *recorder
	pace    pace
	weights float64
}

// Run carries the storm out and returns what was seen. It ends when the scenario
// does, when MaxRequests are sent, or with an error when ctx ends before. No
// goroutine of it is left when it returns.
func (s *Storm) Run(ctx context.Context) (*Recording, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(errOver)
	r := &run{Storm: s, record: newRecorder(s.Scenario, time.Now())}
	r.pace = pace{left: MaxRequests, spent: func() { cancel(errSpent) }}
	for i := range s.Scenario.Classes {
		r.weights += s.Scenario.Classes[i].Share
	}
	var all sync.WaitGroup
	all.Go(func() { r.outage(ctx) })
	if s.Watch != nil {
		all.Go(func() { r.watch(ctx) })
	}
	r.arrive(ctx, &all)
	cause := context.Cause(ctx)
	recording := r.record.recordingAt(time.Now())
	cancel(errOver)
	all.Wait()
	if cause != nil && !errors.Is(cause, errSpent) {
		return nil, cause
	}
	recording.Capped = cause != nil
	return recording, nil
}

func (s *Storm) check() error {
	problems := []error{s.Scenario.Check()}
	if s.Scenario.Length > MaxLength {
		problems = append(problems, fmt.Errorf("live: Length: %v is beyond %v", s.Scenario.Length, MaxLength))
	}
	if s.URL == "" || s.Transport == nil || s.Dependency == nil {
		problems = append(problems, errors.New("live: URL, Transport and Dependency are required"))
	}
	return errors.Join(problems...)
}

// arrive starts the operations, one by one, at exponential distances: people do
// not know of each other.
func (r *run) arrive(ctx context.Context, all *sync.WaitGroup) {
	rng := rand.New(rand.NewPCG(r.Scenario.Seed, ^uint64(0)))
	due := r.record.start
	end := due.Add(r.Scenario.Length)
	for i := uint64(0); ; i++ {
		due = due.Add(time.Duration(rng.ExpFloat64() / r.Scenario.Demand * float64(time.Second)))
		if !due.Before(end) {
			pause(ctx.Done(), time.Until(end))
			return
		}
		if !pause(ctx.Done(), time.Until(due)) {
			return
		}
		o := newOperation(r, i)
		all.Go(func() { o.do(ctx) })
	}
}

// outage switches the dependency off and on. It is on when the storm ends.
func (r *run) outage(ctx context.Context) {
	if !pause(ctx.Done(), time.Until(r.record.start.Add(r.Scenario.OutageAt))) {
		return
	}
	r.Dependency(true)
	defer r.Dependency(false)
	pause(ctx.Done(), time.Until(r.record.start.Add(r.Scenario.OutageEnd())))
}

func (r *run) watch(ctx context.Context) {
	for pause(ctx.Done(), Interval) {
		r.Watch(r.record.recordingAt(time.Now()))
	}
}

// pick returns the class at a point of the shares, x within 0 and 1.
func (r *run) pick(x float64) *storm.Class {
	x *= r.weights
	classes := r.Scenario.Classes
	for i := range classes {
		if x -= classes[i].Share; x < 0 {
			return &classes[i]
		}
	}
	return &classes[len(classes)-1]
}
