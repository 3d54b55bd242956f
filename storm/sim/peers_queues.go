package sim

import "time"

const (
	codelAbout = "Facebook's Fail at Scale (ACM Queue 2015): a queue with controlled delay, 5 ms while it was not empty for 100 ms, else 100 ms; last in, first out while it is not"
	dagorAbout = "DAGOR of WeChat (SoCC 2018): 128 levels of users by hash; a mean queuing time above 20 ms in a second admits 5 % fewer, else 1 % more; one kind of business only"
	wafAbout   = "a firewall's rate rule from 14:20 on: who asks more than 100 times a minute is blocked for ten minutes, with 403"
)

// codel is a queue of its own before the service, which never waits then.
type codel struct {
	limited

	queue []queued // in the order of arrival; left ones are kept until they come up
	n     int      // those of them who still wait
	empty instant  // when it was last empty
}

// queued is an attempt in the queue.
type queued struct {
	op    uint32
	since instant
	left  bool
}

const (
	codelTarget   = instant(5 * time.Millisecond)
	codelInterval = instant(100 * time.Millisecond)
)

func newCodel(e *engine) *codel {
	return &codel{limited: limited{rule: static(e.s.slots())}}
}

func (c *codel) arrive(e *engine, i uint32) {
	if c.n == 0 {
		c.empty = e.now
	}
	if c.n == 0 && c.in < e.s.slots() {
		c.admit(e, i)
		return
	}
	c.trim()
	c.queue = append(c.queue, queued{op: i, since: e.now})
	c.n++
	e.agenda.add(e.now+codelInterval, evQueue, i)
}

// trim forgets those at the front who left.
func (c *codel) trim() {
	k := 0
	for k < len(c.queue) && c.queue[k].left {
		k++
	}
	c.queue = c.queue[:copy(c.queue, c.queue[k:])]
}

// late refuses whom nobody has come for within the interval.
func (c *codel) late(e *engine, i uint32) {
	for k := range c.queue {
		if q := &c.queue[k]; q.op == i && !q.left && e.now-q.since >= codelInterval {
			c.leave(q)
			e.refuse(i, 0)
			return
		}
	}
}

func (c *codel) leave(q *queued) {
	q.left = true
	c.n--
}

func (c *codel) done(e *engine, ref uint32) {
	c.limited.done(e, ref)
	for c.n > 0 && c.in < e.s.slots() {
		q := c.pick()
		c.leave(q)
		if e.now-q.since > codelTimeout(e.now-c.empty) {
			e.refuse(q.op, 0)
			continue
		}
		c.admit(e, q.op)
	}
	if c.n == 0 {
		c.empty, c.queue = e.now, c.queue[:0]
	}
}

// pick is the newest who waits: the queue is not empty.
func (c *codel) pick() *queued {
	k := len(c.queue) - 1
	for c.queue[k].left {
		k--
	}
	c.queue = c.queue[:k+1]
	return &c.queue[k]
}

// codelTimeout is the closed form: how long a request may have waited, by how long
// the queue has not been empty.
func codelTimeout(standing instant) instant {
	if standing > codelInterval {
		return codelTarget
	}
	return codelInterval
}

// dagor is DAGOR.
type dagor struct {
	bare

	level    int // users of a lower level enter
	second   int64
	offered  [dagorLevels]int // in this second
	admitted int
	waited   instant
}

const dagorLevels = 128

func newDagor(*engine) *dagor { return &dagor{level: dagorLevels} }

func (d *dagor) arrive(e *engine, i uint32) {
	if s := int64(e.now / instant(time.Second)); s != d.second {
		d.adjust()
		d.second = s
	}
	o := &e.ops[i]
	hour := uint64(e.now / instant(time.Hour)) // the order of users changes every hour
	level := int(mix(e.clientOf(o)^hour<<48) % dagorLevels)
	d.offered[level]++
	if level >= d.level {
		e.refuse(i, 0)
		return
	}
	d.admitted++
	p := e.enter(i)
	d.waited += p.start - e.now
}

func (d *dagor) adjust() {
	mean := instant(0)
	if d.admitted > 0 {
		mean = d.waited / instant(d.admitted)
	}
	d.level = dagorLevel(d.level, &d.offered, d.admitted, mean > instant(20*time.Millisecond))
	d.offered, d.admitted, d.waited = [dagorLevels]int{}, 0, 0
}

// dagorLevel is the closed form: the level at which the histogram of the last
// second reaches 95 % of what was admitted, or 101 %.
func dagorLevel(level int, offered *[dagorLevels]int, admitted int, overloaded bool) int {
	if overloaded {
		expected := 0.95 * float64(admitted)
		prefix := float64(admitted)
		for level > 0 && prefix > expected {
			level--
			prefix -= float64(offered[level])
		}
		return level
	}
	expected := 1.01 * float64(admitted)
	prefix := float64(admitted)
	for level < dagorLevels && prefix < expected {
		prefix += float64(offered[level])
		level++
	}
	if admitted == 0 {
		level = min(level+1, dagorLevels) // nobody came: open a little
	}
	return level
}

// waf blocks the busiest.
type waf struct {
	bare

	minute  int64
	asked   map[uint64]int
	blocked map[uint64]instant
}

const (
	wafLimit = 100 // a minute
	wafBlock = instant(10 * time.Minute)
	wafDelay = instant(20 * time.Minute) // until somebody has switched it on
)

func newWAF(*engine) *waf {
	return &waf{asked: make(map[uint64]int), blocked: make(map[uint64]instant)}
}

func (w *waf) arrive(e *engine, i uint32) {
	if m := int64(e.now / instant(time.Minute)); m != w.minute {
		w.minute = m
		clear(w.asked)
	}
	who := e.clientOf(&e.ops[i])
	w.asked[who]++
	if wafBlocks(w.asked[who]) && e.s.Outage > 0 && e.now >= e.outageAt+wafDelay {
		w.blocked[who] = e.now + wafBlock
	}
	if w.blocked[who] > e.now {
		e.bar(i)
		return
	}
	e.enter(i)
}

// wafBlocks is the closed form.
func wafBlocks(inMinute int) bool { return inMinute > wafLimit }
