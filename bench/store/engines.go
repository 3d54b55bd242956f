package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/comporta/comporta/store"
	"github.com/comporta/comporta/store/memstore"
	"github.com/comporta/comporta/store/pgstore"
	"github.com/comporta/comporta/store/redisstore"
	"github.com/comporta/comporta/store/sqlitestore"
)

// engine is one that is measured. open opens an empty one; end removes what is
// left of it.
type engine struct {
	name string
	open func(context.Context) (keys store.Keys, end func(), err error)
}

var engines = []engine{
	{"memory", openMemory},
	{"sqlite", openSQLite},
	{"postgres", openPostgres},
	{"redis, appendfsync always", redisWith("always")},
	{"redis, appendfsync everysec", redisWith("everysec")},
}

func openMemory(context.Context) (store.Keys, func(), error) {
	return memstore.New(memstore.Config{MaxRecords: 1 << 30, MaxBytes: 1 << 40}), func() {}, nil
}

func folder() (string, func(), error) {
	dir, err := os.MkdirTemp("", "comporta-bench-store")
	return dir, func() { _ = os.RemoveAll(dir) }, err
}

func openSQLite(ctx context.Context) (store.Keys, func(), error) {
	dir, end, err := folder()
	if err != nil {
		return nil, nil, err
	}
	s, err := sqlitestore.Open(ctx, sqlitestore.Config{Path: filepath.Join(dir, "state.db")})
	if err != nil {
		end()
		return nil, nil, err
	}
	return s, end, nil
}

func openPostgres(ctx context.Context) (store.Keys, func(), error) {
	url := os.Getenv("COMPORTA_TEST_POSTGRES_URL")
	if url == "" {
		return nil, nil, errors.New("COMPORTA_TEST_POSTGRES_URL is not set: make bench-store starts one")
	}
	// The server is thrown away with the schema.
	s, err := pgstore.Open(ctx, pgstore.Config{URL: url, Schema: fmt.Sprintf("bench_%d", time.Now().UnixNano())})
	if err != nil {
		return nil, nil, err
	}
	return s, func() {}, nil
}

// redisWith starts a Redis of our own.
func redisWith(fsync string) func(context.Context) (store.Keys, func(), error) {
	return func(ctx context.Context) (store.Keys, func(), error) {
		dir, remove, err := folder()
		if err != nil {
			return nil, nil, err
		}
		addr, stop, err := startRedis(ctx, dir, fsync)
		if err != nil {
			remove()
			return nil, nil, err
		}
		end := func() { stop(); remove() }
		s, err := redisstore.Open(ctx, redisstore.Config{Redis: redis.UniversalOptions{Addrs: []string{addr}}})
		if err != nil {
			end()
			return nil, nil, err
		}
		return s, end, nil
	}
}

func startRedis(ctx context.Context, dir, fsync string) (addr string, stop func(), err error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	addr = l.Addr().String()
	_, port, err := net.SplitHostPort(addr)
	if err := errors.Join(err, l.Close()); err != nil {
		return "", nil, err
	}
	cmd := exec.CommandContext(ctx, "redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", dir, //nolint:gosec // our own words
		"--save", "", "--appendonly", "yes", "--appendfsync", fsync)
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() { _, _ = cmd.Process.Kill(), cmd.Wait() } // what it held is thrown away
	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: 100, MaxRetryBackoff: 50 * time.Millisecond})
	defer func() { _ = client.Close() }() // asked already
	if err := client.Ping(ctx).Err(); err != nil {
		stop()
		return "", nil, err
	}
	return addr, stop, nil
}
