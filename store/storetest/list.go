package storetest

import (
	"fmt"
	"time"

	"github.com/comporta/comporta/store"
)

// listed reads a listing to its end.
func (t *trial) listed(q store.Query) (keys []string) {
	t.Helper()
	for {
		p, err := t.keys.List(t.ctx(), t.now, q)
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		if len(p.Records) > q.Page() {
			t.Fatalf("a page of %d records", len(p.Records))
		}
		for i := range p.Records {
			keys = append(keys, p.Records[i].Label.Key)
		}
		if p.Next == "" {
			return keys
		}
		if p.Next == q.Cursor {
			t.Fatalf("the page after %q is itself", q.Cursor)
		}
		q.Cursor = p.Next
	}
}

// exactly wants each of want once, in that order if the engine has one.
func (t *trial) exactly(got []string, want ...string) {
	t.Helper()
	if !t.features.Unordered && fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("listed %v, want %v", got, want)
	}
	seen := map[string]int{}
	for _, k := range got {
		seen[k]++
	}
	for _, k := range want {
		if seen[k] != 1 {
			t.Errorf("%s is listed %d times in %v", k, seen[k], got)
		}
	}
	if len(got) != len(want) {
		t.Errorf("listed %v, want %v", got, want)
	}
}

// later lets the engine's clock show another instant.
func (t *trial) later() {
	before := time.Now()
	t.pass(10*time.Millisecond, func() bool {
		return t.moves() || time.Since(before) > 2*time.Millisecond
	})
}

func list(t *trial) {
	t.exactly(t.listed(store.Query{}))
	lapsing := t.ask("lapsed")
	lapsing.Lease = t.short
	t.granted(lapsing)
	t.lapse("lapsed", t.short)
	h := t.granted(t.ask("finished"))
	t.finish(h, "made")
	t.later()
	other := t.ask("other")
	other.Label.Client, other.Label.Route = "d", "carts"
	t.granted(other)
	t.later()
	t.granted(t.ask("running"))

	t.exactly(t.listed(store.Query{}), "running", "other", "finished", "lapsed")
	for state, want := range map[store.State][]string{
		store.Running: {"running", "other"}, store.Lapsed: {"lapsed"}, store.Finished: {"finished"},
	} {
		t.exactly(t.listed(store.Query{State: &state}), want...)
	}
	t.exactly(t.listed(store.Query{Client: "d"}), "other")
	t.exactly(t.listed(store.Query{Route: "orders"}), "running", "finished", "lapsed")
	t.exactly(t.listed(store.Query{Key: "finished"}), "finished")
	t.exactly(t.listed(store.Query{Key: "finished", Client: "d"}))
	t.exactly(t.listed(store.Query{Key: "%"}))
	if _, err := t.keys.List(t.ctx(), t.now, store.Query{Cursor: "no cursor of ours"}); err == nil {
		t.Error("a cursor that was never given is taken")
	}
}

// listPages: what lives through the listing is on one page, whatever comes and
// goes meanwhile.
func listPages(t *trial) {
	var want []string
	for i := range 23 {
		t.granted(t.ask(fmt.Sprint("k", i)))
		want = append([]string{fmt.Sprint("k", i)}, want...)
		if i%5 == 0 {
			t.later() // some are of one instant
		}
	}
	for _, limit := range []int{1, 5, 23, 24} {
		got := t.listed(store.Query{Limit: limit})
		if len(got) != len(want) {
			t.Errorf("pages of %d: %d records: %v", limit, len(got), got)
		}
		seen := map[string]bool{}
		for _, k := range got {
			if seen[k] {
				t.Errorf("pages of %d: %s is listed twice", limit, k)
			}
			seen[k] = true
		}
	}
	p, err := t.keys.List(t.ctx(), t.now, store.Query{Limit: 10})
	if err != nil || p.Next == "" {
		t.Fatalf("%+v, %v", p, err)
	}
	t.later()
	t.granted(t.ask("new"))
	seen := map[string]int{}
	for i := range p.Records {
		seen[p.Records[i].Label.Key]++
	}
	for _, k := range t.listed(store.Query{Limit: 10, Cursor: p.Next}) {
		seen[k]++
	}
	for _, k := range want {
		if seen[k] != 1 {
			t.Errorf("with a claim between the pages %s is listed %d times", k, seen[k])
		}
	}
}

// listHidesAnswers: a listing is no place for what others were told.
func listHidesAnswers(t *trial) {
	t.finish(t.granted(t.ask("k")), "secret")
	p, err := t.keys.List(t.ctx(), t.now, store.Query{})
	if err != nil || len(p.Records) != 1 {
		t.Fatalf("%+v, %v", p, err)
	}
	r := p.Records[0]
	if len(r.Answer.Body) != 0 || len(r.Answer.Header) != 0 || r.Answer.Status != 201 || r.BodySize != len("secret") || r.State != store.Finished {
		t.Errorf("%+v", r)
	}
}

func finishedNames(t *trial) {
	t.granted(t.ask("running"))
	want := map[store.Name]bool{}
	for i := range 5 {
		key := fmt.Sprint("k", i)
		t.finish(t.granted(t.ask(key)), "made")
		want[name(key)] = true
	}
	over := t.granted(t.ask("over"))
	if err := t.keys.Finish(t.ctx(), t.now, over, answer("made", t.short)); err != nil {
		t.Fatal(err)
	}
	t.pass(t.short+time.Millisecond, func() bool { return t.gone("over") })

	got := 0
	err := t.keys.Finished(t.ctx(), t.now, func(n store.Name, ends time.Time) bool {
		if !want[n] {
			t.Errorf("%v is not one of those that are finished, or it comes twice", n)
		}
		delete(want, n)
		if left := ends.Sub(t.now); left <= 22*t.long || left > 25*t.long {
			t.Errorf("it ends in %v", left)
		}
		got++
		return true
	})
	if err != nil || got != 5 {
		t.Errorf("%d finished, %v", got, err)
	}
	got = 0
	err = t.keys.Finished(t.ctx(), t.now, func(store.Name, time.Time) bool { got++; return got < 2 })
	if err != nil || got != 2 {
		t.Errorf("%d finished after it was enough, %v", got, err)
	}
}
