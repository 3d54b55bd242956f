package sim

import "math"

// dice draws every random number of a run by name and not by turn: what an
// operation draws depends on the seed, on the operation and on the question, and
// not on what was drawn before. So the same operation has the same class,
// patience and jitter whatever stands before the service, and defences are
// compared in pairs (common random numbers).
type dice struct{ seed uint64 }

// question names a draw.
type question uint64

const (
	askGap question = iota + 1 // until the next operation
	askClass
	askUser
	askNetwork
	askPatience
	askPark
	askUnsent
	askLookup
	askTwin
	askTimeout
	askObey
	askReload
	askThink
	askNewKey
	askJitter
	askBackoff
	askWake
	askService
	askKnown
	askFails
	askDefence // what a defence draws
)

// of returns a number within [0, 1) for the n-th time that who is asked.
func (d dice) of(q question, who uint64, n int) float64 {
	return float64(d.bits(q, who, n)>>11) / (1 << 53)
}

func (d dice) bits(q question, who uint64, n int) uint64 {
	return mix(d.seed*0x9e3779b97f4a7c15 ^ mix(who+uint64(q)<<56) + uint64(n)*0xd1342543de82ef95)
}

// exponential returns a draw with mean 1.
func (d dice) exponential(q question, who uint64, n int) float64 {
	return -math.Log(1 - d.of(q, who, n))
}

// mix is the finisher of splitmix64 (Steele, Lea and Flood, 2014): every bit of
// the result depends on every bit of x.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
