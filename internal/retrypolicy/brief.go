package retrypolicy

import (
	"strings"
	"time"
)

// Brief is the policy in brief, as the header Retry-Policy says it.
type Brief struct {
	// MaxAttempts is the number of attempts with the first, at least 1; 0 when
	// not said.
	MaxAttempts int
	// MinWait is the shortest wait between attempts; 0 when not said.
	MinWait time.Duration
	// TTL is how long it holds, up to MaxTTL.
	TTL time.Duration
}

// How long a policy in brief holds.
const (
	DefaultTTL = time.Minute // when it does not say: until the next look at the document
	MaxTTL     = 24 * time.Hour
)

// maxBrief is the longest header that is worth reading, in bytes.
const maxBrief = 256

// ParseBrief reads `max=1;min-ms=2000;ttl=600`: parameters in any order, with
// white space around them. Unknown ones are ignored, numbers saturate, and max=0
// is read as 1, since the first attempt has been made. What cannot be read, or
// says nothing about attempts or waits, is not ok.
func ParseBrief(v string) (b Brief, ok bool) {
	if len(v) > maxBrief {
		return Brief{}, false
	}
	const (
		hasMax = 1 << iota
		hasMin
		hasTTL
	)
	var has int
	b.TTL = DefaultTTL
	for parameter := range strings.SplitSeq(v, ";") {
		name, value, _ := strings.Cut(parameter, "=")
		var flag int
		var limit int64
		switch name = strings.Trim(name, " \t"); name {
		case "max":
			flag, limit = hasMax, MaxAttempts
		case "min-ms":
			flag, limit = hasMin, MaxWait.Milliseconds()
		case "ttl":
			flag, limit = hasTTL, int64(MaxTTL/time.Second)
		default:
			continue
		}
		n, valid := digits(strings.Trim(value, " \t"), limit)
		if !valid || has&flag != 0 { // twice is two policies, and nobody knows which
			return Brief{}, false
		}
		has |= flag
		switch flag {
		case hasMax:
			b.MaxAttempts = max(int(n), 1)
		case hasMin:
			b.MinWait = time.Duration(n) * time.Millisecond
		case hasTTL:
			b.TTL = time.Duration(n) * time.Second
		}
	}
	if has&(hasMax|hasMin) == 0 {
		return Brief{}, false
	}
	return b, true
}

// digits reads decimal digits only, saturating at limit.
func digits(s string, limit int64) (n int64, ok bool) {
	if s == "" {
		return 0, false
	}
	for i := range len(s) {
		d := s[i] - '0'
		if d > 9 {
			return 0, false
		}
		n = min(n*10+int64(d), limit)
	}
	return n, true
}
