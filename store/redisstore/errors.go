package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/comporta/comporta/store"
)

// ErrUnavailable says that Redis cannot be reached, does not answer, or cannot take
// what it is told.
var ErrUnavailable = errors.New("redisstore: not available")

// remedies say what to do about errors of the server, by their first word.
var remedies = map[string]string{
	"NOAUTH":      "it wants a password",
	"WRONGPASS":   "check user and password",
	"NOPERM":      "allow this user the commands that package redisstore lists, on its keys",
	"READONLY":    "it is a replica: name the master, or its Sentinels",
	"MISCONF":     "it cannot write to its disk: make room there",
	"LOADING":     "it starts, and reads its disk",
	"MASTERDOWN":  "it is a replica whose master is away",
	"CLUSTERDOWN": "the cluster lacks a part of its slots",
	"NOREPLICAS":  "it has fewer replicas than min-replicas-to-write",
}

// explain says what an error means for who runs the store.
func explain(err error) error {
	if err == nil || errors.Is(err, ErrUnavailable) {
		return err
	}
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("redisstore: %w", err)
	}
	word, _, _ := strings.Cut(err.Error(), " ")
	if word == "OOM" {
		return fmt.Errorf("redisstore: %w: Redis has used up its maxmemory: raise it: %w", store.ErrFull, err)
	}
	if remedy := remedies[word]; remedy != "" {
		return fmt.Errorf("%w: %s: %w", ErrUnavailable, remedy, err)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// dropped reports whether a connection broke under a command, so that another one
// may do better. What a server said stands.
func dropped(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	_, said := errors.AsType[redis.Error](err)
	return !said
}
