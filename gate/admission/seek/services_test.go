package seek

import (
	"math"
	"math/rand/v2"
	"time"
)

// service is what stands behind the gate in the simulator.
type service interface {
	enter(s *sim, id int32) // a job comes in
	leave(s *sim, id int32) // the gate gave it up; a good service stops the work
	wake(s *sim, e event)   // an event that the service scheduled
}

// pool is a fixed number of workers behind a queue without end. A worker needs
// work × each.
type pool struct {
	workers int
	each    float64 // seconds
	busy    int
	queue   []ticket
}

const (
	nowhere = iota
	inQueue
	atWork
)

func newPool(workers int, each time.Duration) func() service {
	return func() service { return &pool{workers: workers, each: each.Seconds()} }
}

func (p *pool) enter(s *sim, id int32) {
	j := &s.jobs[id]
	if p.busy < p.workers {
		p.begin(s, id)
		return
	}
	j.place = inQueue
	p.queue = append(p.queue, ticket{id, j.gen})
}

func (p *pool) begin(s *sim, id int32) {
	p.busy++
	j := &s.jobs[id]
	j.place = atWork
	s.push(s.now+int64(j.work*p.each*1e9), evService, id, j.gen)
}

func (p *pool) leave(s *sim, id int32) {
	j := &s.jobs[id]
	if j.place == atWork {
		p.busy--
	}
	j.place = nowhere
	p.fill(s)
}

func (p *pool) wake(s *sim, e event) {
	if j := &s.jobs[e.id]; j.gen != e.gen || j.place != atWork {
		return
	}
	p.busy--
	p.fill(s)
	s.answered(e.id)
}

func (p *pool) fill(s *sim) {
	for p.busy < p.workers && len(p.queue) > 0 {
		next := p.queue[0]
		p.queue = p.queue[1:]
		if j := &s.jobs[next.id]; j.gen == next.gen && j.place == inQueue {
			p.begin(s, next.id)
		}
	}
}

// resize changes a pool at the beginning of a phase.
func resize(workers int, each time.Duration) func(*sim) {
	return func(s *sim) {
		p := s.svc.(*pool)
		p.workers, p.each = workers, each.Seconds()
		p.fill(s)
	}
}

// usl shares itself among all jobs inside, and loses throughput to contention
// and coherence as Gunther's Universal Scalability Law says: X(n) = n/each /
// (1 + α(n-1) + βn(n-1)), with its peak at √((1-α)/β).
type usl struct {
	alpha, beta, each float64
	v                 float64 // work done for each job since the start
	at                int64
	heap              []int32
	gen               uint32
}

func newUSL(peak, alpha float64, each time.Duration) func() service {
	return func() service {
		return &usl{alpha: alpha, beta: (1 - alpha) / (peak * peak), each: each.Seconds()}
	}
}

// throughput returns X(n) per second.
func (u *usl) throughput(n float64) float64 {
	if n <= 0 {
		return 0
	}
	return n / u.each / (1 + u.alpha*(n-1) + u.beta*n*(n-1))
}

func (u *usl) advance(s *sim) {
	if n := float64(len(u.heap)); n > 0 {
		u.v += float64(s.now-u.at) / 1e9 * u.throughput(n) / n
	}
	u.at = s.now
}

func (u *usl) plan(s *sim) {
	u.gen++
	if n := float64(len(u.heap)); n > 0 {
		dv := max(0, s.jobs[u.heap[0]].vfinish-u.v)
		s.push(s.now+int64(math.Ceil(dv*n/u.throughput(n)*1e9)), evService, -1, u.gen)
	}
}

func (u *usl) enter(s *sim, id int32) {
	u.advance(s)
	s.jobs[id].vfinish = u.v + s.jobs[id].work
	u.heap = append(u.heap, id)
	u.up(s, len(u.heap)-1)
	u.plan(s)
}

func (u *usl) leave(s *sim, id int32) {
	u.advance(s)
	for i, x := range u.heap {
		if x == id {
			u.remove(s, i)
			break
		}
	}
	u.plan(s)
}

func (u *usl) wake(s *sim, e event) {
	if e.gen != u.gen || len(u.heap) == 0 {
		return
	}
	u.advance(s)
	id := u.heap[0]
	u.remove(s, 0)
	s.answered(id)
	u.plan(s)
}

func (u *usl) less(s *sim, i, k int) bool {
	return s.jobs[u.heap[i]].vfinish < s.jobs[u.heap[k]].vfinish
}

func (u *usl) up(s *sim, i int) {
	for i > 0 && u.less(s, i, (i-1)/2) {
		u.heap[i], u.heap[(i-1)/2] = u.heap[(i-1)/2], u.heap[i]
		i = (i - 1) / 2
	}
}

func (u *usl) remove(s *sim, i int) {
	n := len(u.heap) - 1
	u.heap[i] = u.heap[n]
	u.heap = u.heap[:n]
	if i >= n {
		return
	}
	u.up(s, i)
	for {
		c := 2*i + 1
		if c >= n {
			return
		}
		if c+1 < n && u.less(s, c+1, c) {
			c++
		}
		if !u.less(s, c, i) {
			return
		}
		u.heap[i], u.heap[c] = u.heap[c], u.heap[i]
		i = c
	}
}

// mixture draws one of several constants, each spread by a tenth.
func mixture(values []time.Duration, weights []float64) func(*rand.Rand) float64 {
	return func(r *rand.Rand) float64 {
		x := r.Float64()
		for i, w := range weights {
			if x -= w; x < 0 || i == len(weights)-1 {
				return values[i].Seconds() * (.9 + .2*r.Float64())
			}
		}
		return 0
	}
}
