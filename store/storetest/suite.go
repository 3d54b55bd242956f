package storetest

import (
	"context"
	"crypto/sha256"
	"errors"
	"strings"
	"testing" //nolint:depguard // a conformance suite is imported by tests only
	"time"

	"github.com/comporta/comporta/store"
)

// Features says what an engine cannot do, and how its clock is moved.
type Features struct {
	// OwnClock: the engine does not read the instants that it is given.
	OwnClock bool
	// Advance moves the clock of an engine with OwnClock; nil: it cannot be moved.
	Advance func(time.Duration)
	// Volatile: nothing is left when the engine is closed.
	Volatile bool
	// Unordered: listings come in an order of the engine's own.
	Unordered bool
	// SelfSweeping: the engine forgets what is over by itself; Sweep returns 0.
	SelfSweeping bool
}

// Engine is one state, empty at first, which can be opened again and again.
type Engine struct {
	// Open opens it. The suite closes what it has opened before it opens another,
	// except where Shared allows both.
	Open func(testing.TB) store.Keys
	// Shared: it can be open twice at a time, as by two processes.
	Shared bool
}

// Keys tries an engine. newEngine is called once a case.
func Keys(t *testing.T, f Features, newEngine func(testing.TB) Engine) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			e := newEngine(t)
			tr := &trial{T: t, features: f, engine: e, now: time.Now()}
			tr.long, tr.short = time.Hour, time.Minute
			if !tr.moves() {
				tr.short = 250 * time.Millisecond
			}
			tr.keys = e.Open(t)
			defer func() {
				if err := tr.keys.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			}()
			c.try(tr)
		})
	}
}

var cases = []struct {
	name string
	try  func(*trial)
}{
	{"Secret", secret},
	{"ClaimAndFinish", claimAndFinish},
	{"TestCase_Events_A6_ClaimsRace", claimsRace},
	{"ClaimAskedAgain", claimAskedAgain},
	{"Release", release},
	{"ReleaseOfAnotherState", releaseOfAnotherState},
	{"TestCase_Events_B15_LiveIsNoOrphan", liveIsNoOrphan},
	{"TestCase_Events_B16_TakeoverIsASwap", takeoverIsASwap},
	{"TestCase_Events_B16_TakeoverRace", takeoverRace},
	{"TestCase_Events_B12_LateFinish", lateFinish},
	{"FinishOfALapsedHold", finishOfALapsedHold},
	{"FinishAskedAgain", finishAskedAgain},
	{"TestCase_Events_B14_LeaseOnTheRecord", leaseOnTheRecord},
	{"TestCase_Events_B19_Renew", renew},
	{"TimeToLive", timeToLive},
	{"TimeToLiveOfALapsedClaim", timeToLiveOfALapsedClaim},
	{"Fingerprints", fingerprints},
	{"Bytes", bytesAsTheyAre},
	{"Bounds", bounds},
	{"Invalid", invalid},
	{"NamesAreApart", namesAreApart},
	{"List", list},
	{"ListPages", listPages},
	{"ListHidesAnswers", listHidesAnswers},
	{"FinishedNames", finishedNames},
	{"Sweep", sweep},
	{"SweepInParts", sweepInParts},
	{"Reopen", reopen},
	{"SharedByTwo", sharedByTwo},
	{"ContextIsObeyed", contextIsObeyed},
	{"Health", health},
	{"RandomWalk", walk},
	{"Closed", closed},
}

// trial is one case under way.
type trial struct {
	*testing.T

	features Features
	engine   Engine
	keys     store.Keys
	now      time.Time
	// long does not pass during a case; short does when the case says so.
	long, short time.Duration
}

// moves reports whether time passes as the case says, and not by itself.
func (t *trial) moves() bool { return !t.features.OwnClock || t.features.Advance != nil }

func (t *trial) ctx() context.Context { return t.Context() }

// pass lets a time pass for the engine. One whose clock is its own and cannot be
// moved is waited for until the condition holds.
func (t *trial) pass(d time.Duration, until func() bool) {
	t.Helper()
	t.now = t.now.Add(d)
	if t.features.Advance != nil {
		t.features.Advance(d)
	}
	if !t.moves() {
		deadline := time.NewTimer(time.Minute)
		defer deadline.Stop()
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for !until() {
			select {
			case <-tick.C:
			case <-deadline.C:
				t.Fatalf("after a minute the engine has not seen %v pass", d)
			}
		}
	}
	if !until() {
		t.Fatalf("%v have passed, and the engine has not seen it", d)
	}
}

func name(s string) store.Name { return sha256.Sum256([]byte(s)) }

// ask is a claim of a key with a fence of its own.
func (t *trial) ask(key string) store.Claim {
	return store.Claim{
		Name: name(key), Fence: store.NewFence(), Lease: t.long, TTL: 24 * t.long, Fingerprint: []byte("f"),
		Label: store.Label{Client: "c", Method: "POST", Route: "orders", Key: key},
	}
}

func hold(c store.Claim) store.Hold { return store.Hold{Name: c.Name, Fence: c.Fence} }

func (t *trial) claim(c store.Claim) store.Claimed {
	t.Helper()
	got, err := t.keys.Claim(t.ctx(), t.now, c)
	if err != nil {
		t.Fatalf("claim: %v", err)
	}
	return got
}

// granted claims and wants to be granted.
func (t *trial) granted(c store.Claim) store.Hold {
	t.Helper()
	if got := t.claim(c); !got.Granted {
		t.Fatalf("not granted; in the way: %+v", got.Record)
	}
	return hold(c)
}

// denied claims and wants the record that stands in the way.
func (t *trial) denied(c store.Claim, state store.State) store.Record {
	t.Helper()
	got := t.claim(c)
	if got.Granted || got.Record.State != state {
		t.Fatalf("granted %v; in the way: %+v; want one that is %v", got.Granted, got.Record, state)
	}
	return got.Record
}

func (t *trial) finish(h store.Hold, body string) {
	t.Helper()
	if err := t.keys.Finish(t.ctx(), t.now, h, answer(body, 24*t.long)); err != nil {
		t.Fatalf("finish: %v", err)
	}
}

func answer(body string, ttl time.Duration) store.Finish {
	return store.Finish{TTL: ttl, Answer: store.Answer{Status: 201, Header: []byte("Location: /1\r\n"), Body: []byte(body)}}
}

func (t *trial) look(key string) store.Record {
	t.Helper()
	r, err := t.keys.Look(t.ctx(), t.now, name(key))
	if err != nil {
		t.Fatalf("look at %s: %v", key, err)
	}
	return r
}

func (t *trial) gone(key string) bool {
	_, err := t.keys.Look(t.ctx(), t.now, name(key))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("look at %s: %v", key, err)
	}
	return err != nil
}

// lapse lets the lease of a key end.
func (t *trial) lapse(key string, lease time.Duration) {
	t.Helper()
	t.pass(lease+time.Millisecond, func() bool { return t.look(key).State == store.Lapsed })
}

func (t *trial) wants(err, want error, what string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// long256 is longer than a part of a label may be.
var long256 = strings.Repeat("x", store.MaxLabel+1)
