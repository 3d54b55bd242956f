package seek

import (
	"math"
	"math/rand/v2"
	"time"
)

// A queueing simulator in virtual time: open arrivals, a gate with the limit
// under test and its short queue, and a service behind it. Work is drawn at
// arrival, so that two limits with one seed meet the same requests.

// limiter is what the gate consults: the Limit under test, or a constant.
type limiter interface {
	Limit() int
	StartAt(now time.Time, inflight int)
	DoneAt(now time.Time, inflight int, latency time.Duration, drop bool)
	IgnoreAt(now time.Time, inflight int)
	RefusedAt(now time.Time)
}

// static is the limit that never learns.
type static int

func (l static) Limit() int                               { return int(l) }
func (static) StartAt(time.Time, int)                     {}
func (static) DoneAt(time.Time, int, time.Duration, bool) {}
func (static) IgnoreAt(time.Time, int)                    {}
func (static) RefusedAt(time.Time)                        {}

// phase is a stretch of time with one arrival rate.
type phase struct {
	length time.Duration
	rate   float64    // requests per second, Poisson
	change func(*sim) // at its beginning; nil for none
}

// world describes a run.
type world struct {
	phases  []phase
	service func() service
	work    func(*rand.Rand) float64 // of one request, in seconds of the service's time
	timeout time.Duration            // the gate's own, to the service; 0 for none
	// Shares of requests, and what becomes of them.
	cancels  float64 // callers who leave cancelAfter after their arrival
	cancelIn time.Duration
	streams  float64 // answers whose head turns them into streams: they leave the gate
	foreign  float64 // extra arrivals (share of rate) that the gate answers itself at once
}

type job struct {
	arrived, admitted int64
	work              float64
	gen               uint32
	state             uint8
	leaves, stream    bool
	vfinish           float64 // for shared services
	place             uint8   // for pools
}

// ticket is a place in a queue. It is stale when the job has gone meanwhile.
type ticket struct {
	id  int32
	gen uint32
}

const (
	jobFree = iota
	jobQueued
	jobInside
)

type event struct {
	at   int64
	seq  uint32
	gen  uint32
	id   int32
	kind uint8
}

const (
	evArrive = iota
	evPhase
	evGateQueue // waited long enough
	evCancel
	evTimeout
	evService // the service's own
)

// second is one second of the result.
type second struct {
	offered, good, refused, drops, sent int
	peak                                int
	level                               float64 // mean
}

type result struct {
	seconds []second
	hist    []histogram // of each phase: latency of successes from arrival to answer
	levels  []float64   // sampled ten times a second
}

type sim struct {
	world
	rng, mix *rand.Rand
	now      int64
	seq      uint32
	heap     []event
	jobs     []job
	free     []int32
	waiting  []ticket // the gate's queue; stale entries are skipped
	waits    int
	inflight int
	limit    limiter
	svc      service
	res      *result
	at       int // index of the phase
	end      int64
	probed   int64
	onProbe  func(*sim)
}

var epoch = time.Unix(1_700_000_000, 0)

func (s *sim) time() time.Time { return epoch.Add(time.Duration(s.now)) }

func (s *sim) sec() *second {
	i := int(s.now / int64(time.Second))
	if i >= len(s.res.seconds) {
		i = len(s.res.seconds) - 1
	}
	return &s.res.seconds[i]
}

const gateWait = int64(100 * time.Millisecond)

// run plays the world to its end.
func (w world) run(l limiter, seed uint64, probe func(*sim)) *result {
	var total time.Duration
	for _, p := range w.phases {
		total += p.length
	}
	s := &sim{
		world: w, limit: l, svc: w.service(), onProbe: probe, end: int64(total), at: -1,
		rng: rand.New(rand.NewPCG(seed, 1)), mix: rand.New(rand.NewPCG(seed, 2)),
		res: &result{seconds: make([]second, int(total/time.Second)+1), hist: make([]histogram, len(w.phases))},
	}
	if w.work == nil {
		s.work = func(r *rand.Rand) float64 { return r.ExpFloat64() }
	}
	var at int64
	for _, p := range w.phases {
		s.push(at, evPhase, 0, 0)
		at += int64(p.length)
	}
	s.loop()
	return s.res
}

func (s *sim) loop() {
	for len(s.heap) > 0 {
		e := s.pop()
		if e.at >= s.end {
			return
		}
		for ; s.probed <= e.at; s.probed += int64(100 * time.Millisecond) {
			s.now = s.probed
			lv := float64(s.limit.Limit())
			s.res.levels = append(s.res.levels, lv)
			s.sec().level += lv / 10
			if s.onProbe != nil {
				s.onProbe(s)
			}
		}
		s.now = e.at
		s.handle(e)
	}
}

func (s *sim) handle(e event) {
	switch e.kind {
	case evPhase:
		s.at++
		if p := s.phases[s.at]; p.change != nil {
			p.change(s)
		}
		s.arriveNext(uint32(s.at)) // the chain of the phase before ends at its next arrival
	case evArrive:
		if e.gen == uint32(s.at) {
			s.arrive()
			s.arriveNext(e.gen)
		}
	case evGateQueue:
		if j := &s.jobs[e.id]; j.gen == e.gen && j.state == jobQueued {
			s.waits--
			s.refuse()
			s.drop(e.id)
		}
	case evCancel:
		s.cancel(e)
	case evTimeout:
		if j := &s.jobs[e.id]; j.gen == e.gen && j.state == jobInside {
			s.svc.leave(s, e.id)
			s.sec().drops++
			s.release(e.id, func() {
				s.limit.DoneAt(s.time(), s.inflight, time.Duration(s.now-j.admitted), true)
			})
		}
	case evService:
		s.svc.wake(s, e)
	}
}

func (s *sim) arriveNext(gen uint32) {
	rate := s.phases[s.at].rate
	if rate > 0 {
		s.push(s.now+int64(s.rng.ExpFloat64()/rate*1e9), evArrive, 0, gen)
	}
}

func (s *sim) arrive() {
	if s.foreign > 0 && s.mix.Float64() < s.foreign/(1+s.foreign) {
		// Answered by the gateway itself within 50 µs, after it was admitted.
		s.limit.StartAt(s.time(), s.inflight+1)
		s.limit.IgnoreAt(s.time().Add(50*time.Microsecond), s.inflight)
		return
	}
	id := s.newJob()
	j := &s.jobs[id]
	j.arrived, j.work = s.now, s.work(s.mix)
	j.leaves = s.cancels > 0 && s.mix.Float64() < s.cancels
	j.stream = s.streams > 0 && s.mix.Float64() < s.streams
	s.sec().offered++
	if j.leaves {
		s.push(s.now+int64(s.cancelIn), evCancel, id, j.gen)
	}
	limit := s.limit.Limit()
	switch {
	case s.inflight < limit && s.waits == 0:
		s.admit(id)
	case s.waits < max(1, limit/4):
		j.state = jobQueued
		s.waits++
		s.waiting = append(s.waiting, ticket{id, j.gen})
		s.push(s.now+gateWait, evGateQueue, id, j.gen)
	default:
		s.refuse()
		s.drop(id)
	}
}

func (s *sim) refuse() {
	s.sec().refused++
	s.limit.RefusedAt(s.time())
}

func (s *sim) admit(id int32) {
	j := &s.jobs[id]
	j.state, j.admitted = jobInside, s.now
	s.inflight++
	c := s.sec()
	c.sent++
	c.peak = max(c.peak, s.inflight)
	s.limit.StartAt(s.time(), s.inflight)
	if s.timeout > 0 {
		s.push(s.now+int64(s.timeout), evTimeout, id, j.gen)
	}
	s.svc.enter(s, id)
}

// answered is called by the service when a job is done.
func (s *sim) answered(id int32) {
	j := &s.jobs[id]
	if j.stream {
		s.release(id, func() { s.limit.IgnoreAt(s.time(), s.inflight) })
		return
	}
	s.sec().good++
	s.res.hist[s.at].add(float64(s.now-j.arrived) / 1e9)
	s.release(id, func() {
		s.limit.DoneAt(s.time(), s.inflight, time.Duration(s.now-j.admitted), false)
	})
}

func (s *sim) cancel(e event) {
	j := &s.jobs[e.id]
	if j.gen != e.gen {
		return
	}
	switch j.state {
	case jobQueued:
		s.waits--
		s.drop(e.id)
	case jobInside:
		s.svc.leave(s, e.id)
		s.release(e.id, func() { s.limit.IgnoreAt(s.time(), s.inflight) })
	}
}

// release frees a permit, tells the limiter, and hands the permit on.
func (s *sim) release(id int32, tell func()) {
	s.inflight--
	tell()
	s.drop(id)
	for s.waits > 0 && s.inflight < s.limit.Limit() {
		next := s.waiting[0]
		s.waiting = s.waiting[1:]
		if j := &s.jobs[next.id]; j.gen == next.gen && j.state == jobQueued {
			s.waits--
			s.admit(next.id)
		}
	}
	if s.waits == 0 {
		s.waiting = s.waiting[:0]
	}
}

func (s *sim) newJob() int32 {
	if n := len(s.free); n > 0 {
		id := s.free[n-1]
		s.free = s.free[:n-1]
		return id
	}
	s.jobs = append(s.jobs, job{})
	return int32(len(s.jobs) - 1)
}

func (s *sim) drop(id int32) {
	j := &s.jobs[id]
	*j = job{gen: j.gen + 1}
	s.free = append(s.free, id)
}

func (s *sim) push(at int64, kind uint8, id int32, gen uint32) {
	s.seq++
	s.heap = append(s.heap, event{at: at, seq: s.seq, gen: gen, id: id, kind: kind})
	i := len(s.heap) - 1
	for i > 0 {
		p := (i - 1) / 4
		if !s.heap[i].before(s.heap[p]) {
			break
		}
		s.heap[i], s.heap[p] = s.heap[p], s.heap[i]
		i = p
	}
}

func (e event) before(f event) bool { return e.at < f.at || e.at == f.at && e.seq < f.seq }

func (s *sim) pop() event {
	top := s.heap[0]
	n := len(s.heap) - 1
	s.heap[0] = s.heap[n]
	s.heap = s.heap[:n]
	i := 0
	for {
		least := i
		for c := 4*i + 1; c <= 4*i+4 && c < n; c++ {
			if s.heap[c].before(s.heap[least]) {
				least = c
			}
		}
		if least == i {
			return top
		}
		s.heap[i], s.heap[least] = s.heap[least], s.heap[i]
		i = least
	}
}

// histogram counts latencies in steps of two percent.
type histogram struct {
	bins  [900]int
	total int
}

func (h *histogram) add(x float64) {
	i := int(math.Log(x/1e-5) / math.Log(1.02))
	h.bins[min(max(i, 0), len(h.bins)-1)]++
	h.total++
}

func (h *histogram) quantile(q float64) float64 {
	want, sum := int(q*float64(h.total)), 0
	for i := range h.bins {
		if sum += h.bins[i]; sum > want {
			return 1e-5 * math.Pow(1.02, float64(i)+.5)
		}
	}
	return 0
}

// sum adds up a stretch of seconds.
func (r *result) sum(from, to int) second {
	var t second
	for _, c := range r.seconds[from:min(to, len(r.seconds))] {
		t.offered += c.offered
		t.good += c.good
		t.refused += c.refused
		t.drops += c.drops
		t.sent += c.sent
		t.peak = max(t.peak, c.peak)
		t.level += c.level
	}
	t.level /= float64(to - from)
	return t
}

// spread returns the mean and the standard deviation of the limit over a
// stretch of seconds.
func (r *result) spread(from, to int) (mean, dev float64) {
	var sum, sq float64
	ls := r.levels[from*10 : min(to*10, len(r.levels))]
	for _, l := range ls {
		sum += l
		sq += l * l
	}
	n := float64(len(ls))
	mean = sum / n
	return mean, math.Sqrt(max(0, sq/n-mean*mean))
}
