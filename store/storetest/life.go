package storetest

import (
	"bytes"
	"errors"
	"strings"
	"time"

	"github.com/comporta/comporta/store"
)

func secret(t *trial) {
	a, err := t.keys.Secret(t.ctx())
	b, err2 := t.keys.Secret(t.ctx())
	if err != nil || err2 != nil || len(a) != store.SecretSize || !bytes.Equal(a, b) || bytes.Equal(a, make([]byte, len(a))) {
		t.Errorf("secrets of %d and %d bytes, %v, %v", len(a), len(b), err, err2)
	}
}

func timeToLive(t *trial) {
	h := t.granted(t.ask("k"))
	if err := t.keys.Finish(t.ctx(), t.now, h, answer("made", t.short)); err != nil {
		t.Fatal(err)
	}
	t.pass(t.short+time.Millisecond, func() bool { return t.gone("k") })
	t.wants(t.keys.Release(t.ctx(), t.now, h, true), store.ErrLost, "released after its time")
	t.granted(t.ask("k"))
}

func timeToLiveOfALapsedClaim(t *trial) {
	c := t.ask("k")
	c.Lease, c.TTL = t.short, 2*t.short
	h := t.granted(c)
	if t.moves() {
		t.lapse("k", t.short)
	}
	t.pass(2*t.short, func() bool { return t.gone("k") })
	t.wants(t.keys.Finish(t.ctx(), t.now, h, answer("late", t.long)), store.ErrLost, "finished after its time")
	t.granted(t.ask("k"))
}

func fingerprints(t *trial) {
	c := t.ask("k")
	c.Fingerprint = nil
	h := t.granted(c)
	if r := t.denied(t.ask("k"), store.Running); len(r.Fingerprint) != 0 {
		t.Errorf("none was given: %q", r.Fingerprint)
	}
	f := answer("made", t.long)
	f.Fingerprint = bytes.Repeat([]byte{0, 0xff}, store.MaxFingerprint/2)
	if err := t.keys.Finish(t.ctx(), t.now, h, f); err != nil {
		t.Fatal(err)
	}
	if r := t.denied(t.ask("k"), store.Finished); !bytes.Equal(r.Fingerprint, f.Fingerprint) {
		t.Errorf("at the end: %q", r.Fingerprint)
	}
}

// bytesAsTheyAre: what is kept comes back as it was.
func bytesAsTheyAre(t *trial) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	c := t.ask("k")
	c.Label = store.Label{Client: "ção", Method: "M-SEARCH", Route: "GET /{a}/'--\"", Key: `%_*\x27`}
	h := t.granted(c)
	f := store.Finish{TTL: t.long, Answer: store.Answer{Status: 599, Header: all, Body: all}}
	if err := t.keys.Finish(t.ctx(), t.now, h, f); err != nil {
		t.Fatal(err)
	}
	if r := t.look("k"); r.Label != c.Label || r.Answer.Status != 599 || !bytes.Equal(r.Answer.Header, all) || !bytes.Equal(r.Answer.Body, all) {
		t.Errorf("%+v", r)
	}
	h = t.granted(t.ask("empty"))
	if err := t.keys.Finish(t.ctx(), t.now, h, store.Finish{TTL: t.long, Answer: store.Answer{Status: 204}}); err != nil {
		t.Fatal(err)
	}
	if a := t.look("empty").Answer; a.Status != 204 || len(a.Header) != 0 || len(a.Body) != 0 || a.Omitted {
		t.Errorf("an empty answer: %+v", a)
	}
	h = t.granted(t.ask("omitted"))
	if err := t.keys.Finish(t.ctx(), t.now, h, store.Finish{TTL: t.long, Answer: store.Answer{Status: 200, Omitted: true}}); err != nil {
		t.Fatal(err)
	}
	if a := t.look("omitted").Answer; a.Status != 200 || !a.Omitted {
		t.Errorf("an answer without its body: %+v", a)
	}
}

func bounds(t *trial) {
	c := t.ask("k")
	c.Fingerprint = make([]byte, store.MaxFingerprint+1)
	_, err := t.keys.Claim(t.ctx(), t.now, c)
	t.wants(err, store.ErrTooLarge, "fingerprint")
	c = t.ask("k")
	c.Label.Key = long256
	_, err = t.keys.Claim(t.ctx(), t.now, c)
	t.wants(err, store.ErrTooLarge, "label")
	c.Label.Key = long256[1:]
	h := t.granted(c)

	f := answer("", t.long)
	f.Answer.Body = make([]byte, store.MaxBody+1)
	t.wants(t.keys.Finish(t.ctx(), t.now, h, f), store.ErrTooLarge, "body")
	f = answer("", t.long)
	f.Answer.Header = make([]byte, store.MaxHeader+1)
	t.wants(t.keys.Finish(t.ctx(), t.now, h, f), store.ErrTooLarge, "header")
	if r := t.look("k"); r.State != store.Running {
		t.Errorf("after answers that are too large: %+v", r)
	}
	f = answer(strings.Repeat("b", store.MaxBody), t.long)
	f.Answer.Header = []byte(strings.Repeat("h", store.MaxHeader))
	if err := t.keys.Finish(t.ctx(), t.now, h, f); err != nil {
		t.Fatalf("the largest answer: %v", err)
	}
	if a := t.look("k").Answer; !bytes.Equal(a.Body, f.Answer.Body) || !bytes.Equal(a.Header, f.Answer.Header) {
		t.Errorf("the largest answer came back as %d and %d bytes", len(a.Header), len(a.Body))
	}
}

func invalid(t *trial) {
	for what, change := range map[string]func(*store.Claim){
		"no fence":        func(c *store.Claim) { c.Fence = 0 },
		"negative fence":  func(c *store.Claim) { c.Fence = -1 },
		"over itself":     func(c *store.Claim) { c.Over = c.Fence },
		"no lease":        func(c *store.Claim) { c.Lease = 0 },
		"ttl below lease": func(c *store.Claim) { c.TTL = c.Lease - 1 },
		"endless ttl":     func(c *store.Claim) { c.TTL = store.MaxTTL + 1 },
	} {
		c := t.ask("k")
		change(&c)
		_, err := t.keys.Claim(t.ctx(), t.now, c)
		t.wants(err, store.ErrInvalid, what)
	}
	if !t.gone("k") {
		t.Error("an invalid claim left a record")
	}
	h := t.granted(t.ask("k"))
	t.wants(t.keys.Finish(t.ctx(), t.now, h, answer("made", 0)), store.ErrInvalid, "no ttl")
	f := answer("made", t.long)
	f.Answer.Omitted = true
	t.wants(t.keys.Finish(t.ctx(), t.now, h, f), store.ErrInvalid, "a body that is omitted")
}

func namesAreApart(t *trial) {
	for _, key := range []string{"a", "b", "ab", "A", "a ", ""} {
		t.granted(t.ask(key))
	}
	c := t.ask("a")
	c.Name[31]++
	t.granted(c)
}

func sweep(t *trial) {
	for _, key := range []string{"a", "b"} {
		c := t.ask(key)
		c.Lease, c.TTL = t.short, t.short
		t.granted(c)
	}
	t.granted(t.ask("stays"))
	t.pass(t.short+time.Millisecond, func() bool { return t.gone("a") && t.gone("b") })
	n, err := t.keys.Sweep(t.ctx(), t.now, 100)
	if err != nil || !t.features.SelfSweeping && n > 2 {
		t.Errorf("%d swept, %v", n, err)
	}
	if n, err = t.keys.Sweep(t.ctx(), t.now, 100); err != nil || n != 0 {
		t.Errorf("%d swept again, %v", n, err)
	}
	if t.gone("stays") {
		t.Error("a record whose time is not over was swept")
	}
	if h, err := t.keys.Health(t.ctx()); err != nil || h.Records > 1 && !t.features.SelfSweeping {
		t.Errorf("%+v, %v", h, err)
	}
}

func sweepInParts(t *trial) {
	if t.features.SelfSweeping {
		t.Skip("this engine forgets by itself")
	}
	keys := []string{"a", "b", "c", "d", "e"}
	for _, key := range keys {
		c := t.ask(key)
		c.Lease, c.TTL = t.short, t.short
		t.granted(c)
	}
	// A look may remove what it finds to be over: the last is looked at only.
	t.pass(t.short+time.Millisecond, func() bool { return t.gone("e") })
	total := 0
	for range len(keys) + 1 {
		n, err := t.keys.Sweep(t.ctx(), t.now, 2)
		if err != nil || n > 2 {
			t.Fatalf("%d swept, %v", n, err)
		}
		if total += n; n < 2 {
			break
		}
	}
	if total < len(keys)-1 || total > len(keys) {
		t.Errorf("%d swept in all", total)
	}
}

// reopen: what was recorded outlives the process.
func reopen(t *trial) {
	if t.features.Volatile {
		t.Skip("this engine keeps nothing")
	}
	before, err := t.keys.Secret(t.ctx())
	if err != nil {
		t.Fatal(err)
	}
	running, finished := t.granted(t.ask("running")), t.granted(t.ask("finished"))
	t.finish(finished, "made")
	if err := t.keys.Close(); err != nil {
		t.Fatal(err)
	}
	t.keys = t.engine.Open(t)
	if after, err := t.keys.Secret(t.ctx()); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the secret is another, %v", err)
	}
	if r := t.denied(t.ask("running"), store.Running); r.Fence != running.Fence || r.LeaseLeft <= 0 {
		t.Errorf("running: %+v", r)
	}
	if r := t.denied(t.ask("finished"), store.Finished); string(r.Answer.Body) != "made" {
		t.Errorf("finished: %+v", r)
	}
	t.finish(running, "after all")
}

func health(t *trial) {
	t.granted(t.ask("k"))
	h, err := t.keys.Health(t.ctx())
	if err != nil || h.Engine == "" || h.Records != 1 && h.Records != -1 {
		t.Errorf("%+v, %v", h, err)
	}
}

func closed(t *trial) {
	t.granted(t.ask("k"))
	if err := t.keys.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := t.keys.Claim(t.ctx(), t.now, t.ask("l"))
	t.wants(err, store.ErrClosed, "claim")
	_, err = t.keys.Look(t.ctx(), t.now, name("k"))
	t.wants(err, store.ErrClosed, "look")
	if _, err = t.keys.Health(t.ctx()); !errors.Is(err, store.ErrClosed) {
		t.Errorf("health: %v", err)
	}
	if err := t.keys.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
}
