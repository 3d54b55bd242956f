package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// connections is how many the load keeps busy.
const connections = 64

// script tells wrk what to ask and how to report.
//
//go:embed load.lua
var script []byte

// load is a generator of requests.
type load struct {
	cpu    int
	script string // file
	asked  int    // requests so far: the next begin where the last ended
}

func newLoad(cpu int, dir string) (*load, error) {
	l := &load{cpu: cpu, script: filepath.Join(dir, "load.lua")}
	return l, os.WriteFile(l.script, script, 0o600)
}

// heard is what wrk reports.
type heard struct {
	Requests int     `json:"requests"`
	Seconds  float64 `json:"seconds"`
	P50      float64 `json:"p50_us"`
	P99      float64 `json:"p99_us"`
	Refused  int     `json:"refused"` // statuses from 400 on
	Broken   int     `json:"broken"`  // connections and timeouts
}

// What load.lua asks.
const (
	askGet    = "GET"
	askPost   = "POST"   // 10 KiB
	askOrder  = "ORDER"  // a POST of 1 KiB
	askKey    = "KEY"    // the same, each under a key of its own
	askRepeat = "REPEAT" // the same under a thousand keys, over and over
)

// run loads addr for some seconds with requests of one kind.
func (l *load) run(ctx context.Context, addr, ask string, seconds int) (heard, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second+startTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "taskset", "-c", strconv.Itoa(l.cpu), //nolint:gosec // our own arguments
		"wrk", "-t", "1", "-c", strconv.Itoa(connections), "-d", fmt.Sprintf("%ds", seconds), "--timeout", "5s",
		"-s", l.script, "http://"+addr, "--", ask, strconv.Itoa(l.asked))
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil {
		return heard{}, fmt.Errorf("wrk: %w\n%s%s", err, &out, &complaints)
	}
	var h heard
	text := out.Bytes()[bytes.LastIndexByte(bytes.TrimSpace(out.Bytes()), '\n')+1:]
	if err := json.Unmarshal(text, &h); err != nil || h.Requests == 0 {
		return h, fmt.Errorf("wrk reports no requests: %w\n%s%s", err, &out, &complaints)
	}
	l.asked += h.Requests + connections
	return h, nil
}
