package bulkhead

// waiter is a caller in the queue. Its links and its permit are guarded by the
// bulkhead's lock; once ready is closed the permit does not change any more.
type waiter struct {
	ready      chan struct{} // closed when the permit has been handed over
	permit     Permit
	prev, next *waiter
}

// queue is a list of waiters in the order of their arrival. Each may leave from
// the middle at no cost to the others. Its zero value is empty.
type queue struct {
	head, tail *waiter
	len        int
}

func (q *queue) push(w *waiter) {
	w.prev = q.tail
	if q.tail == nil {
		q.head = w
	} else {
		q.tail.next = w
	}
	q.tail = w
	q.len++
}

// pop takes the one who has waited longest; nil when nobody waits.
func (q *queue) pop() *waiter {
	w := q.head
	if w != nil {
		q.remove(w)
	}
	return w
}

// remove takes out a waiter that stands in the queue.
func (q *queue) remove(w *waiter) {
	if w.prev == nil {
		q.head = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.tail = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next = nil, nil
	q.len--
}
