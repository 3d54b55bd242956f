package gate

import (
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/comporta/comporta"
)

// Each letter is what one second asks for, and the one below it the level after it.
func TestLevelSteps(t *testing.T) {
	ask := map[byte]Level{'n': LevelNormal, 'b': LevelBusy, 'o': LevelOverload, 'A': LevelAttack}
	for _, tt := range []struct{ why, asked, want string }{
		{"nothing", "nnn", "nnn"},
		{"a single second is no trend", "bnbnbn", "nnnnnn"},
		{"two in a row are", "bbn", "nbb"},
		{"to the top at once", "oo", "no"},
		{"an attack is believed at once", "nA", "nA"},
		{"down by one after ten", "oo" + strings.Repeat("n", 10), "no" + strings.Repeat("o", 9) + "b"},
		{"and by one more", "oo" + strings.Repeat("n", 20), "no" + strings.Repeat("o", 9) + strings.Repeat("b", 10) + "n"},
		{"calm begins anew", "oo" + strings.Repeat("n", 9) + "o" + strings.Repeat("n", 9), "no" + strings.Repeat("o", 19)},
		{"no deeper than asked", "oo" + strings.Repeat("b", 30), "no" + strings.Repeat("o", 9) + strings.Repeat("b", 21)},
	} {
		var l ladder
		got := ""
		for i := range tt.asked {
			l = l.step(ask[tt.asked[i]], 1)
			got += string("nboA"[l.level])
		}
		if got != tt.want {
			t.Errorf("%s:\nasked %s\ngot   %s\nwant  %s", tt.why, tt.asked, got, tt.want)
		}
	}
	if l := (ladder{level: LevelAttack}).step(LevelNormal, 3600); l.level != LevelNormal {
		t.Errorf("after an hour without requests: %v", l.level)
	}
	if l := (ladder{rising: 1}).step(LevelOverload, 60); l.level != LevelNormal {
		t.Error("two pressed seconds with a minute between them are in a row")
	}
}

func TestLevelThresholds(t *testing.T) {
	for _, tt := range []struct {
		p    pressure
		was  Level
		want Level
	}{
		{pressure{use: 0.79}, LevelNormal, LevelNormal},
		{pressure{use: 0.8}, LevelNormal, LevelBusy},
		{pressure{use: 0.7}, LevelBusy, LevelBusy},
		{pressure{use: 0.69}, LevelBusy, LevelNormal},
		{pressure{use: 0.1, bound: true}, LevelNormal, LevelOverload},
		{pressure{use: 1, bound: true, verdict: VerdictBacklog}, LevelNormal, LevelOverload},
		{pressure{verdict: VerdictAttack}, LevelNormal, LevelAttack},
	} {
		if got := tt.p.asks(tt.was); got != tt.want {
			t.Errorf("%+v at %v asks for %v, want %v", tt.p, tt.was, got, tt.want)
		}
	}
}

// Whatever is asked: no level is above all that was asked lately, and none falls
// faster than one in ten seconds.
func TestLevelsNeverFlutter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var d degrade
		second, fell, most := int64(0), int64(-fallAfter), LevelNormal
		was := LevelNormal
		for range rapid.IntRange(1, 200).Draw(t, "seconds") {
			p := pressure{
				use: rapid.Float64Range(0, 1.2).Draw(t, "use"), bound: rapid.Bool().Draw(t, "bound"),
				verdict: Verdict(rapid.IntRange(0, int(numVerdicts)-1).Draw(t, "verdict")),
			}
			second++
			most = max(most, p.asks(was))
			l := d.judge(second, p)
			switch {
			case l > most:
				t.Fatalf("%v, but no more than %v was asked for", l, most)
			case l < was && (was-l > 1 || second-fell < fallAfter):
				t.Fatalf("from %v to %v at second %d, the fall before was at %d", was, l, second, fell)
			case l < was:
				fell = second
			}
			if again := d.judge(second, pressure{verdict: VerdictAttack}); again != l {
				t.Fatalf("one second is judged twice: %v, then %v", l, again)
			}
			was = l
		}
	})
}

// A second is judged by whoever comes first, and by nobody else.
func TestLevelRace(t *testing.T) {
	var d degrade
	for second := int64(1); second <= 200; second++ {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() { d.judge(second, pressure{bound: true}) })
		}
		all.Wait()
	}
	if _, l := unpackLevel(d.word.Load()); l != (ladder{level: LevelOverload}) {
		t.Errorf("after 200 seconds of overload: %+v", l)
	}
}

// A clock that steps back neither freezes the level nor jumps down with it.
func TestLevelClockStepsBack(t *testing.T) {
	var d degrade
	for s := int64(1000); s < 1003; s++ {
		d.judge(s, pressure{bound: true})
	}
	if l := d.judge(10, pressure{}); l != LevelOverload {
		t.Errorf("a step back made it %v", l)
	}
	for s := int64(11); s < 40; s++ {
		d.judge(s, pressure{})
	}
	if _, l := unpackLevel(d.word.Load()); l.level != LevelNormal {
		t.Errorf("it is %v half a minute later", l.level)
	}
}

func TestLevelPin(t *testing.T) {
	g := benchGate(t, Config{Admission: Admission{Capacity: 4}})
	now, s := time.Now(), g.State()
	if err := s.PinLevelAt(now, LevelAttack, now.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if l := g.LevelAt(now); l != LevelAttack || !g.viewAt(now).Attack || g.StatsAt(now).Level != LevelAttack {
		t.Errorf("pinned to attack, it is %v", l)
	}
	if l, until, ok := s.LevelPinAt(now); l != LevelAttack || !ok || !until.Equal(now.Add(time.Minute)) {
		t.Errorf("the pin is %v until %v, %t", l, until, ok)
	}
	now = now.Add(time.Minute)
	if l := g.LevelAt(now); l != LevelNormal {
		t.Errorf("after the pin it is %v", l)
	}
	if _, _, ok := s.LevelPinAt(now); ok {
		t.Error("a pin that is over is told")
	}
	for _, ttl := range []time.Duration{0, -time.Second, 25 * time.Hour} {
		if err := s.PinLevelAt(now, LevelBusy, now.Add(ttl)); err == nil {
			t.Errorf("a pin for %v is accepted", ttl)
		}
	}
	if err := s.PinLevelAt(now, numLevels, now.Add(time.Second)); err == nil {
		t.Error("a level that there is not is accepted")
	}
	if err := s.PinLevelAt(now, LevelBusy, now.Add(time.Second)); err != nil || g.LevelAt(now) != LevelBusy {
		t.Errorf("not pinned: %v", err)
	}
	s.UnpinLevel()
	if l := g.LevelAt(now); l != LevelNormal {
		t.Errorf("without the pin it is %v", l)
	}
}

// A full house is overloaded after two seconds, and normal again some time after.
func TestLevelOfTheHouse(t *testing.T) {
	g := benchGate(t, Config{Admission: Admission{Capacity: 2, QueueWait: -1}})
	now := time.Now()
	ask := func(from byte) Decision {
		return g.Begin(now, &comporta.Request{Method: "GET", Path: "/", Remote: netip.AddrFrom4([4]byte{192, 0, 2, from}), Header: http.Header{}})
	}
	held := []Decision{ask(1), ask(2)}
	for range 3 {
		now = now.Add(time.Second)
		ask(3)
	}
	if l := g.LevelAt(now); l != LevelOverload {
		t.Errorf("a house that refuses is %v", l)
	}
	for i := range held {
		held[i].FinishAt(now, comporta.Outcome{Status: 200, Result: comporta.ResultSuccess})
	}
	for range 25 {
		now = now.Add(time.Second)
		d := ask(4)
		d.FinishAt(now, comporta.Outcome{Status: 200, Result: comporta.ResultSuccess})
	}
	if l := g.LevelAt(now); l != LevelNormal {
		t.Errorf("a house at rest is %v", l)
	}
}

func TestLevelNames(t *testing.T) {
	for l := range numLevels {
		if got, err := ParseLevel(l.String()); err != nil || got != l {
			t.Errorf("%v is read as %v, %v", l, got, err)
		}
	}
	if _, err := ParseLevel("panic"); err == nil || numLevels.String() != "unknown" {
		t.Error("a level that there is not has a name")
	}
}
