package memstore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/comporta/comporta/store"
	"github.com/comporta/comporta/store/memstore"
	"github.com/comporta/comporta/store/storetest"
)

func TestKeys(t *testing.T) {
	storetest.Keys(t, storetest.Features{Volatile: true}, func(testing.TB) storetest.Engine {
		return storetest.Engine{Open: func(testing.TB) store.Keys { return memstore.New(memstore.Config{}) }}
	})
}

func claim(key byte, ttl time.Duration) store.Claim {
	return store.Claim{Name: store.Name{key}, Fence: store.NewFence(), Lease: time.Minute, TTL: ttl}
}

func TestFullTakesNoMoreClaimsUntilOneIsOver(t *testing.T) {
	s := memstore.New(memstore.Config{MaxRecords: 2})
	now := time.Now()
	for i := range 3 {
		_, err := s.Claim(t.Context(), now, claim(byte(i), time.Duration(i+1)*time.Hour))
		if (i == 2) != errors.Is(err, store.ErrFull) || i < 2 && err != nil {
			t.Fatalf("claim %d: %v", i, err)
		}
	}
	if got, err := s.Claim(t.Context(), now.Add(time.Hour), claim(2, time.Hour)); err != nil || !got.Granted {
		t.Errorf("after the first one's time: %+v, %v", got, err)
	}
}

func TestFullOfBytesStillTakesAnswers(t *testing.T) {
	s := memstore.New(memstore.Config{MaxBytes: 1000})
	c := claim(1, time.Hour)
	now := time.Now()
	if _, err := s.Claim(t.Context(), now, c); err != nil {
		t.Fatal(err)
	}
	f := store.Finish{TTL: time.Hour, Answer: store.Answer{Status: 200, Body: []byte(strings.Repeat("x", 2000))}}
	if err := s.Finish(t.Context(), now, store.Hold{Name: c.Name, Fence: c.Fence}, f); err != nil {
		t.Fatalf("what was carried out is not recorded: %v", err)
	}
	if _, err := s.Claim(t.Context(), now, claim(2, time.Hour)); !errors.Is(err, store.ErrFull) {
		t.Errorf("a claim when full: %v", err)
	}
	if h, err := s.Health(t.Context()); err != nil || h.Bytes < 2000 || h.Records != 1 {
		t.Errorf("%+v, %v", h, err)
	}
	if n, err := s.Sweep(t.Context(), now.Add(time.Hour), 10); err != nil || n != 1 {
		t.Errorf("%d swept, %v", n, err)
	}
	if h, err := s.Health(t.Context()); err != nil || h.Bytes != 0 {
		t.Errorf("after the sweep: %+v, %v", h, err)
	}
}
