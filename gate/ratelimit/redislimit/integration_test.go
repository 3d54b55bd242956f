//go:build integration

package redislimit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/comporta/comporta/gate/ratelimit"
	"github.com/comporta/comporta/gate/ratelimit/limittest"
)

func TestRedisIsAStore(t *testing.T) {
	for _, name := range []string{"URL", "CLUSTER", "SENTINEL"} {
		t.Run(name, func(t *testing.T) {
			o := where(t, "COMPORTA_TEST_REDIS_"+name)
			limittest.Run(t, limittest.Features{OwnClock: true}, func(t testing.TB) ratelimit.Store {
				return open(t, Config{Redis: o})
			})
		})
	}
}

// The script and the server of the unit tests are two writings of one thing.
// Random batches get the same answers from both, and no key outlives the time in
// which it fills: cases/ratelimit.md 18.
func TestCase_RateLimit_18_ScriptAgreesWithModel(t *testing.T) {
	o := where(t, "COMPORTA_TEST_REDIS_URL")
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 18))
	t.Logf("seed %d", seed)
	client := redis.NewUniversalClient(&o)
	t.Cleanup(func() { _ = client.Close() }) // the test is over
	clock := newClock()
	model := newServer(clock.Now)
	// The script's clock is a key, so that both see the same instant.
	tick := prefix() + ":clock"
	moved := newScript(strings.Replace(takeScript, "redis.call('TIME')",
		"{redis.call('GET', '"+tick+"'), 0}", 1))
	moved = newScript(strings.Replace(moved.source, "time[1] * 1000000 + time[2]", "tonumber(time[1])", 1))
	meters := randomMeters(t)
	base := prefix()
	for i := range 400 {
		clock.Advance(100*time.Millisecond + time.Duration(r.Int64N(3_000_000))*time.Microsecond) // always ahead of real time
		if err := client.Set(t.Context(), tick, clock.Now().UnixMicro(), 0).Err(); err != nil {
			t.Fatal(err)
		}
		// Real time does not pass as fast: what the model lets end, Redis must too.
		for key, h := range model.keys {
			if h.end <= clock.Now().UnixMicro() {
				client.Del(t.Context(), key)
			}
		}
		questions := randomQuestions(r, meters)
		var b batch
		b.encode(base, 0, 1+r.Int64N(12), r.IntN(8) == 0, questions)
		args := []any{"", "", len(b.keys)}
		for _, key := range b.keys {
			args = append(args, key)
		}
		got, err := run(t.Context(), client, &moved, append(args, b.numbers))
		if err != nil {
			t.Fatalf("batch %d, %s: %v", i, b.numbers, err)
		}
		before := maps.Clone(model.keys)
		want, err := model.ask(t.Context(), 0, b.keys, b.numbers)
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Fatalf("batch %d, %s:\nredis %v\nmodel %v", i, b.numbers, got, want)
		}
		if err := decode(want, questions); err != nil {
			t.Fatal(err)
		}
		checkEnds(t, client, b.keys[:len(b.meters)], before, model.keys, clock.Now().UnixMicro())
	}
}

// checkEnds holds the time to live of every bucket that was written against what
// the model wrote.
func checkEnds(t *testing.T, client redis.UniversalClient, keys []string, before, after map[string]held, now int64) {
	t.Helper()
	for _, key := range keys {
		h, there := after[key]
		if !there || h == before[key] {
			continue
		}
		ttl, err := client.PTTL(t.Context(), key).Result()
		if err != nil {
			t.Fatal(err)
		}
		full := time.Duration(h.full/h.scale-now) * time.Microsecond
		if ttl == -1 || ttl > full+time.Second { // -1 is none; a millisecond may be over by now
			t.Fatalf("%s lives for %v, and is full in %v", key, ttl, full)
		}
	}
}

func randomMeters(t *testing.T) []*meter {
	t.Helper()
	var meters []*meter
	for i, l := range []ratelimit.Limit{
		perSecond(10, 5), perSecond(3, 100), perSecond(7777, 9999), perSecond(1, 1),
		{Rate: ratelimit.Rate{Count: 1_000_000, Per: 366 * 24 * time.Hour}, Burst: 30_000_000},
		{Rate: ratelimit.Rate{Count: 5, Per: time.Minute}}, {Rate: ratelimit.Rate{Count: 900, Per: time.Millisecond}},
	} {
		p, err := ratelimit.NewPolicy(ratelimit.Policy{
			Name: fmt.Sprint("p", i), Limit: l, Shadow: i%3 == 1, Penalty: i%2 == 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		meters = append(meters, newMeter(p))
	}
	return meters
}

func randomQuestions(r *rand.Rand, meters []*meter) []*question {
	var questions []*question
	for range 1 + r.IntN(6) {
		q := &question{settle: r.IntN(3) == 0}
		for range 1 + r.IntN(3) {
			m := meters[r.IntN(len(meters))]
			it := item{meter: m, wire: nameOf([]byte(m.policy.Name)), cost: r.Int64N(m.burst + 1), want: r.Int64N(m.burst)}
			if q.settle {
				it.cost = r.Int64N(4*m.burst) - 2*m.burst
				if r.IntN(2) == 0 {
					id := nameOf([]byte("id"), []byte{byte(r.IntN(8))}, it.wire[:])
					q.refund = &id
				}
			}
			q.items = append(q.items, it)
			if q.settle {
				break
			}
		}
		// Debits of a call name distinct keys.
		seen := map[name]bool{}
		kept := q.items[:0]
		for _, it := range q.items {
			if !seen[it.wire] {
				kept = append(kept, it)
			}
			seen[it.wire] = true
		}
		q.items = kept
		questions = append(questions, q)
	}
	return questions
}

// cases/ratelimit.md 18: a key without an end is mended, and does not deny for ever.
func TestCase_RateLimit_18_KeyWithoutEndIsMended(t *testing.T) {
	s := open(t, Config{Redis: where(t, "COMPORTA_TEST_REDIS_URL")})
	p := policyOf(t, []*Store{s}, ratelimit.Policy{Name: "p", Limit: ratelimit.Limit{Rate: ratelimit.Rate{Count: 2, Per: time.Minute}}})
	for range 4 {
		if _, _, err := s.take(p, "k", 1); err != nil {
			t.Fatal(err)
		}
	}
	s.settled()
	m := s.meters.Load().byPolicy[p]
	key := string(appendKey(nil, s.config.Prefix, 0, nameOf(m.label, []byte("k"))))
	ctx := t.Context()
	if ttl := s.client.PTTL(ctx, key).Val(); ttl <= 0 || ttl > time.Minute+time.Second {
		t.Errorf("the key lives for %v", ttl)
	}
	s.client.Persist(ctx, key)
	if ttl := s.client.PTTL(ctx, key).Val(); ttl != -1 {
		t.Fatalf("the end is still there: %v", ttl)
	}
	other := open(t, Config{Redis: s.config.Redis, Prefix: s.config.Prefix})
	p2 := policyOf(t, []*Store{other}, ratelimit.Policy{Name: "p", Limit: p.Limit})
	if ok, _, err := other.take(p2, "k", 2); ok || err != nil {
		t.Errorf("an empty bucket pays: %v, %v", ok, err)
	}
	if ttl := s.client.PTTL(ctx, key).Val(); ttl <= 0 || ttl > time.Minute+time.Second {
		t.Errorf("after a denial the key lives for %v", ttl)
	}
}

// cases/ratelimit.md 19: 64 at once on ten units.
func TestCase_RateLimit_19_ConcurrentTakes(t *testing.T) {
	for _, name := range []string{"URL", "CLUSTER"} {
		s := open(t, Config{Redis: where(t, "COMPORTA_TEST_REDIS_"+name)})
		p := policyOf(t, []*Store{s}, ratelimit.Policy{Name: "p", Limit: ratelimit.Limit{Rate: ratelimit.Rate{Count: 10, Per: 24 * time.Hour}}})
		for round := range 10 {
			var admitted atomic.Int64
			var wg sync.WaitGroup
			for range 64 {
				wg.Go(func() {
					ok, _, err := s.take(p, fmt.Sprint("k", round), 1)
					if err != nil {
						t.Error(err)
					}
					if ok {
						admitted.Add(1)
					}
				})
			}
			wg.Wait()
			if n := admitted.Load(); n != 10 {
				t.Errorf("%s, round %d: %d admitted, want 10", name, round, n)
			}
		}
	}
}

// cases/ratelimit.md 24: scripts that are gone are sent again, once, and the
// decision is right.
func TestCase_RateLimit_24_ScriptFlush(t *testing.T) {
	for _, name := range []string{"URL", "CLUSTER"} {
		s := open(t, Config{Redis: where(t, "COMPORTA_TEST_REDIS_"+name)})
		p := policyOf(t, []*Store{s}, ratelimit.Policy{Name: "p", Limit: ratelimit.Limit{Rate: ratelimit.Rate{Count: 10, Per: 24 * time.Hour}}})
		for want := int64(8); want >= 0; want -= 2 {
			flush(t, s.client)
			ok, r, err := s.take(p, "k", 2)
			if !ok || err != nil || r.Remaining != want {
				t.Fatalf("%s: %v, %+v, %v, want %d left", name, ok, r, err, want)
			}
		}
	}
}

func flush(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	var err error
	if c, ok := client.(*redis.ClusterClient); ok {
		err = c.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error { return node.ScriptFlush(ctx).Err() })
	} else {
		err = client.ScriptFlush(t.Context()).Err()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// cases/ratelimit.md 24: a debit whose answer was lost is not sent again. The
// counter is 1, not 2.
func TestCase_RateLimit_24_IndeterminateIsNotReplayed(t *testing.T) {
	o := where(t, "COMPORTA_TEST_REDIS_URL")
	p := newProxy(t, o.Addrs[0])
	s := open(t, Config{
		Redis: redis.UniversalOptions{Addrs: []string{p.Addr().String()}}, Timeout: 50 * time.Millisecond,
	})
	witness := open(t, Config{Redis: o, Prefix: s.config.Prefix})
	policy := policyOf(t, []*Store{s, witness}, ratelimit.Policy{Name: "p", Limit: ratelimit.Limit{Rate: ratelimit.Rate{Count: 10, Per: 24 * time.Hour}}})
	if ok, r, err := s.take(policy, "k", 2); !ok || err != nil || r.Remaining != 8 { // the script is there from now on
		t.Fatalf("%v, %+v, %v", ok, r, err)
	}
	p.mute.Store(true)
	began := time.Now()
	if ok, _, err := s.take(policy, "k", 3); ok || !errors.Is(err, ErrUnavailable) {
		t.Errorf("without an answer: %v, %v", ok, err)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("the budget is 50ms, it took %v", took)
	}
	s.settled()
	// The second call asked for one more unit, to lease it.
	if _, r, err := witness.take(policy, "k", 0); err != nil || r.Remaining != 10-2-3-1 {
		t.Errorf("%+v left, %v", r, err)
	}
}

// cases/ratelimit.md 25: what a script touches it declares, in one slot. A
// cluster refuses anything else, so that the conformance suite above says so too.
func TestCase_RateLimit_25_OneSlotPerScript(t *testing.T) {
	for lane := range clusterLanes {
		slots := map[string]bool{}
		for i := range 50 {
			key := string(appendKey(nil, DefaultPrefix, lane, nameOf([]byte{byte(i)})))
			slots[key[strings.Index(key, "{"):strings.Index(key, "}")]] = true
		}
		if len(slots) != 1 {
			t.Errorf("lane %d has the tags %v", lane, slots)
		}
	}
	if strings.Count(takeScript, "redis.call('GET'") != 0 || strings.Contains(takeScript, "ARGV[2]") {
		t.Error("the script reads what it did not declare")
	}
}

// cases/ratelimit.md 32: 4,000 dead nodes are forgotten within three beats.
func TestCase_RateLimit_32_StaleNodes(t *testing.T) {
	s := open(t, Config{Redis: where(t, "COMPORTA_TEST_REDIS_URL"), Period: minPeriod})
	dead := make([]redis.Z, 4000)
	stamp := float64(time.Now().UnixMicro())
	for i := range dead {
		dead[i] = redis.Z{Score: stamp, Member: fmt.Sprint("dead", i)}
	}
	if err := s.client.ZAdd(t.Context(), s.config.Prefix+":{nodes}", dead...).Err(); err != nil {
		t.Fatal(err)
	}
	until(t, "the dead are counted", func() bool { return s.nodes.Load() > 4000 })
	began := time.Now()
	until(t, "the dead are forgotten", func() bool { return s.nodes.Load() == 1 })
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("took %v", took)
	}
	if n := s.client.ZCard(t.Context(), s.config.Prefix+":{nodes}").Val(); n != 1 {
		t.Errorf("%d nodes are left", n)
	}
}

// Sixty-four callers against one Redis, on keys that fit and on many that come
// seldom.
func BenchmarkRedis(b *testing.B) {
	for _, c := range []struct {
		name string
		keys int
	}{{"hot", 100}, {"cold", 100_000}} {
		b.Run(c.name, func(b *testing.B) {
			s := open(b, Config{Redis: where(b, "COMPORTA_TEST_REDIS_URL"), Keys: 1 << 18})
			p := policyOf(b, []*Store{s}, ratelimit.Policy{Name: "p", Limit: perSecond(1_000_000, 1_000_000)})
			if c.keys > 1000 {
				p = policyOf(b, []*Store{s}, ratelimit.Policy{Name: "p", Limit: perSecond(10, 10)})
			}
			b.SetParallelism(32)
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				key := make([]byte, 0, 16)
				debits, results := []ratelimit.Debit{{Policy: p, Cost: 1, Believed: true}}, make([]ratelimit.Result, 1)
				for pb.Next() {
					debits[0].Key = strconv.AppendInt(key, rand.Int64N(int64(c.keys)), 10)
					if _, err := s.Take(context.Background(), time.Now(), debits, results); err != nil {
						b.Error(err)
						return
					}
				}
			})
			st := s.StatsAt(time.Now())
			b.ReportMetric(float64(st.Asked)/float64(b.N), "asked/op")
			b.ReportMetric(float64(st.Asked)/float64(max(st.Trips, 1)), "asked/trip")
		})
	}
}
