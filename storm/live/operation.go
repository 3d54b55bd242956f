package live

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/storm"
)

// operation is one thing that one user wants, with every attempt at it.
type operation struct {
	run      *run
	class    *storm.Class
	rng      *rand.Rand
	id       uint64
	user     string
	began    time.Time
	attempts int // made so far, all goes together
	inGo     int // made in this go
	wording  int // how often it was worded anew
	ticket   string
}

// newOperation draws everything about operation i from the seed and i alone, so
// that it is the same under every defence.
func newOperation(r *run, i uint64) *operation {
	rng := rand.New(rand.NewPCG(r.Scenario.Seed, i))
	class := r.pick(rng.Float64())
	return &operation{
		run: r, class: class, rng: rng, id: i,
		user: class.Name + "-" + strconv.Itoa(rng.IntN(class.Users)),
	}
}

// do asks until the operation succeeds, is given up or the storm ends.
func (o *operation) do(ctx context.Context) {
	o.began = time.Now()
	o.run.record.began(o.began)
	for {
		if !o.run.pace.wait(ctx) {
			return
		}
		sent := time.Now()
		a := o.attempt(ctx, sent)
		if a.ok() {
			o.run.record.succeeded(o.began, sent, time.Now())
			return
		}
		wait, again := o.next(time.Now(), &a)
		if !again || !pause(ctx.Done(), wait) {
			return
		}
	}
}

// attempt makes one call.
func (o *operation) attempt(ctx context.Context, sent time.Time) (a answer) {
	repeat := o.attempts > 0
	o.run.record.sent(sent, repeat)
	defer func() {
		o.attempts++
		o.inGo++
		if a.refused() {
			o.run.record.refused(sent, repeat)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, o.class.Timeout)
	defer cancel()
	req, err := o.request(ctx)
	if err != nil {
		return answer{}
	}
	resp, err := o.run.Transport.RoundTrip(req)
	if err != nil {
		return answer{}
	}
	return readAnswer(resp)
}

func (o *operation) request(ctx context.Context) (*http.Request, error) {
	if o.attempts > 0 && o.rng.Float64() < o.class.Reworded {
		o.wording++
		o.ticket = ""
	}
	name := strconv.FormatUint(o.id, 10) + "-" + strconv.Itoa(o.wording)
	method, path := http.MethodGet, "/orders/"+name
	if o.class.Keyed {
		method, path = http.MethodPost, "/orders"
	}
	req, err := http.NewRequestWithContext(ctx, method, o.run.URL+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-Api-Key", o.user)
	if o.class.Keyed {
		req.Header.Set(comporta.HeaderIdempotencyKey, name)
	}
	if o.class.Manner == storm.Obedient {
		if o.attempts > 0 {
			req.Header.Set(comporta.HeaderRetryAttempt, strconv.Itoa(o.attempts))
		}
		if o.ticket != "" {
			req.Header.Set(comporta.HeaderRetryTicket, o.ticket)
		}
	}
	return req, nil
}

// next says how long to wait before the next attempt, or that there is none.
func (o *operation) next(now time.Time, a *answer) (wait time.Duration, again bool) {
	c := o.class
	switch c.Manner {
	case storm.Obedient:
		if a.stop || o.inGo >= c.Attempts {
			return 0, false
		}
		wait = o.told(a)
	case storm.Naive:
		switch {
		case c.Parks && (o.attempts == 1 || o.inGo >= c.Attempts):
			wait, o.inGo = o.wake(now), 0
			return wait, now.Sub(o.began)+wait < c.Patience
		case o.inGo >= c.Attempts:
			return 0, false
		}
		wait = o.vary(backoff(c.Base, c.Cap, o.inGo))
	default:
		wait = o.vary(c.Base)
	}
	return wait, now.Sub(o.began)+wait < c.Patience
}

// told is the wait of a client that reads what it is told. A ticket says that
// the wait is already spread; without one a tenth is added, so that a constant
// does not become an appointment.
func (o *operation) told(a *answer) time.Duration {
	o.ticket = a.ticket
	switch {
	case a.wait > 0 && a.ticket != "":
		return a.wait + o.upTo(min(a.wait/10, time.Second))
	case a.wait > 0:
		return a.wait + o.upTo(a.wait/10)
	}
	return o.upTo(backoff(o.class.Base, o.class.Cap, o.inGo))
}

// backoff is base, doubled with each attempt up to most.
func backoff(base, most time.Duration, attempts int) time.Duration {
	for ; attempts > 1 && base < most; attempts-- {
		base *= 2
	}
	return min(base, most)
}

// upTo draws between 0 and d.
func (o *operation) upTo(d time.Duration) time.Duration {
	return time.Duration(o.rng.Float64() * float64(d))
}

// vary draws within a fifth of d.
func (o *operation) vary(d time.Duration) time.Duration { return d*4/5 + o.upTo(d*2/5) }

// wake is how long a parked operation waits for the next synchronisation. With
// each one the clients have drifted further apart.
func (o *operation) wake(now time.Time) time.Duration {
	s := &o.run.Scenario
	at, spread := s.OutageEnd(), s.Spread
	if elapsed := now.Sub(o.run.record.start); elapsed >= at {
		n := int64((elapsed-at)/s.Wake) + 1
		at += time.Duration(n) * s.Wake
		spread += time.Duration(n) * s.Spread
	}
	return o.run.record.start.Add(at).Sub(now) + o.upTo(spread)
}
