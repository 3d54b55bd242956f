package redislimit

// fleet is what the size of a grant depends on besides the limit.
type fleet struct {
	period int64 // T in microseconds
	nodes  int64 // N, at least 1
}

// share is N times less than the burst, halved: when every node holds that much
// of a key, half of the bucket is still in Redis.
func (f fleet) share(m *meter) int64 { return m.burst / (2 * f.nodes) }

// allowance is how many units a node grants to a key before it asks Redis: its
// part of what all nodes may grant in a period, and no more than a lease could
// be. It is at least 1, so that a flood of invented keys, each used once, never
// reaches Redis.
func (f fleet) allowance(m *meter) int64 {
	return max(1, min(int64(m.rate*float64(f.period))/f.nodes, f.share(m)))
}

// lease is the most that a node may hold of one key: half of what is regained in
// a period, so that a lease is spent before it expires, and at most share. The
// script lowers it further, to the same share of what is left in the bucket.
func (f fleet) lease(m *meter) int64 {
	return max(1, min(int64(m.rate*float64(f.period)/2), f.share(m)))
}

// grow doubles what a key wants, up to limit: its last lease was spent.
func grow(want, limit int64) int64 { return max(1, min(2*want, limit)) }

// shrink halves it: part of the last lease expired.
func shrink(want int64) int64 { return want / 2 }
