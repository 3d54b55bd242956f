package ratelimit

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Rate is how many units a key regains in how much time: Count every Per. The
// zero value regains nothing.
type Rate struct {
	Count int64         // 0 to 1e15
	Per   time.Duration // whole microseconds, from 1 µs to 366 days
}

// The limits of a rate. The fastest is 1,000 units a microsecond: more than one
// machine can count.
const (
	maxCount = 1e15
	maxPer   = 366 * 24 * time.Hour
	day      = 24 * time.Hour
)

// String returns the form that ParseRate reads.
func (r Rate) String() string {
	for _, u := range units {
		if r.Per == u.span {
			return strconv.FormatInt(r.Count, 10) + "/" + u.name
		}
	}
	for _, u := range units {
		if r.Per > 0 && r.Per%u.span == 0 {
			return strconv.FormatInt(r.Count, 10) + "/" + strconv.FormatInt(int64(r.Per/u.span), 10) + u.name
		}
	}
	return strconv.FormatInt(r.Count, 10) + "/" + r.Per.String()
}

// units from the longest to the shortest.
var units = [...]struct {
	name string
	span time.Duration
}{{"d", day}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}}

// ParseRate reads "100/s": a count, a slash and a unit out of s, m, h and d,
// before which a whole number may stand ("5/10m"). Counts are whole and not
// negative; "0/s" is a rate that denies everything.
func ParseRate(s string) (Rate, error) {
	count, per, ok := strings.Cut(strings.TrimSpace(s), "/")
	if !ok {
		return Rate{}, fmt.Errorf("ratelimit: rate %q has no slash: write it like 100/s or 5/10m", s)
	}
	n, err := parseWhole(count, maxCount)
	if err != nil {
		return Rate{}, fmt.Errorf("ratelimit: rate %q: count %w", s, err)
	}
	span, err := parsePer(per)
	if err != nil {
		return Rate{}, fmt.Errorf("ratelimit: rate %q: %w", s, err)
	}
	r := Rate{Count: n, Per: span}
	if err := r.check(); err != nil {
		return Rate{}, fmt.Errorf("ratelimit: rate %q: %w", s, err)
	}
	return r, nil
}

// parsePer reads a unit, or a whole number of units.
func parsePer(s string) (time.Duration, error) {
	s = strings.TrimSpace(s)
	for _, u := range units {
		times, ok := strings.CutSuffix(s, u.name)
		if !ok {
			continue
		}
		if times == "" {
			return u.span, nil
		}
		n, err := parseWhole(times, int64(maxPer/u.span))
		if err != nil {
			return 0, fmt.Errorf("time %w", err)
		}
		if n == 0 {
			return 0, fmt.Errorf("the time is 0: leave the number out to mean 1%s", u.name)
		}
		return time.Duration(n) * u.span, nil
	}
	return 0, fmt.Errorf("unit %q is unknown: use s, m, h or d", s)
}

// parseWhole reads decimal digits only, so that a sign, a fraction, NaN and an
// empty text are errors of the configuration and never a number.
func parseWhole(s string, limit int64) (int64, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return 0, errors.New("is empty: give a whole number")
	}
	var n int64
	for i := range len(s) {
		d := s[i] - '0'
		if d > 9 {
			return 0, fmt.Errorf("%q is no whole number", s)
		}
		if n = n*10 + int64(d); n > limit {
			return 0, fmt.Errorf("%q is above %d", s, limit)
		}
	}
	return n, nil
}

// check reports what makes the rate impossible.
func (r Rate) check() error {
	switch {
	case r.Count < 0:
		return fmt.Errorf("count %d is negative: 0 denies everything", r.Count)
	case r.Count == 0:
		return nil
	case r.Count > maxCount:
		return fmt.Errorf("count %d is above %d", r.Count, int64(maxCount))
	case r.Per < time.Microsecond || r.Per > maxPer || r.Per%time.Microsecond != 0:
		return fmt.Errorf("time %v must be whole microseconds between 1µs and 366 days", r.Per)
	case r.Count > maxScale*r.Per.Microseconds():
		return fmt.Errorf("more than %d units a microsecond cannot be told apart", maxScale)
	}
	return nil
}

// interval returns the time between two units in ticks, of which scale make a
// microsecond.
//
// The scale is chosen so that the interval is whole: 3/s is 1,000,000 ticks of a
// third of a microsecond, and no rounding ever accumulates. Only a count that
// shares too few divisors with its time (7,777/s) has no such scale up to
// maxScale; it gets the best one, and the interval is rounded up by less than a
// nanosecond: such a rate is a little slower than written, never faster.
func (r Rate) interval() (ticks, scale uint64) {
	per, count := uint64(r.Per.Microseconds()), uint64(r.Count)
	g := gcd(per, count)
	per, count = per/g, count/g
	if count <= maxScale {
		return per, count
	}
	least := math.MaxFloat64
	for s := uint64(1); s <= maxScale; s++ {
		whole := (per*s + count - 1) / count
		if over := float64(whole*count-per*s) / float64(s); over < least {
			least, ticks, scale = over, whole, s
		}
	}
	return ticks, scale
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// mulDivCeil returns a·b/c rounded up, through 128 bits; c must not be 0. It
// saturates.
func mulDivCeil(a, b, c uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	if hi >= c {
		return 1<<63 - 1
	}
	q, rem := bits.Div64(hi, lo, c)
	if rem != 0 {
		q++
	}
	return min(q, 1<<63-1)
}
