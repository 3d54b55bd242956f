package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// The test binary plays the roles, as the program does.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == roleCommand {
		os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	m.Run()
}

func TestCPUList(t *testing.T) {
	for text, want := range map[string][]int{"0-1": {0, 1}, "3": {3}, "0-2,7,9-10": {0, 1, 2, 7, 9, 10}} {
		if got, err := cpuList(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "a", "1-", "-1", "0,,1"} {
		if got, err := cpuList(text); err == nil {
			t.Errorf("%q: %v, no error", text, got)
		}
	}
}

// The clock of another process runs as it works, and counts what its children do
// only where they are asked for.
func TestAccounting(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sh -c 'while :; do :; done' & echo started; wait")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("started"))); err != nil {
		t.Fatal(err)
	}
	pids, err := family(cmd.Process.Pid)
	defer func() {
		for _, pid := range pids {
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill()
			}
		}
		_ = cmd.Wait()
	}()
	if err != nil || len(pids) != 2 || pids[0] != cmd.Process.Pid {
		t.Fatalf("%v, %v", pids, err)
	}
	p := &process{name: "busy", pids: pids}
	deadline := time.Now().Add(10 * time.Second)
	for used := time.Duration(0); used < 50*time.Millisecond; {
		if used, err = p.cpu(); err != nil || time.Now().After(deadline) {
			t.Fatalf("%v used, %v", used, err)
		}
	}
	if p.rss() < 1<<16 {
		t.Errorf("%d bytes of memory", p.rss())
	}
	if idle, err := (&process{pids: pids[:1]}).cpu(); err != nil || idle > 40*time.Millisecond {
		t.Errorf("the parent, which waits, used %v, %v", idle, err)
	}
}

func TestNginxRefusal(t *testing.T) {
	got, err := nginxRefusal(&refusal{
		Status: 503, Body: `{"a":"b\c"}`,
		Header: http.Header{"Content-Type": {"application/problem+json"}, "Retry-After": {"1"}, "Comporta-Decision": {"full"}},
	})
	want := "default_type \"application/problem+json\";\nadd_header Comporta-Decision \"full\" always;\nadd_header Retry-After \"1\" always;\n" +
		"location / { return 503 \"{\\\"a\\\":\\\"b\\\\c\\\"}\"; }\n"
	if err != nil || got != want {
		t.Errorf("%v\n%s", err, got)
	}
	if _, err := nginxRefusal(&refusal{Body: "$host"}); err == nil {
		t.Error("nginx would put a variable")
	}
}

func TestReport(t *testing.T) {
	line := func(table, name string, cpus ...float64) *row {
		r := &row{table: table, name: name}
		for _, c := range cpus {
			r.samples = append(r.samples, sample{cpu: c, rate: 1e5 / c, p50: time.Millisecond, p99: 9 * time.Millisecond, rss: 1 << 20})
		}
		return r
	}
	r := &result{2, []*row{
		line(tableGet, nameNginx, 2, 3), line(tableGet, nameReverse, 10), line(tableGet, nameGate, 7, 6),
		line(tableRefuse, nameNginx, 1), line(tableRefuse, nameGate, 2.6),
	}}
	var got []string
	for _, v := range r.verdicts() {
		got = append(got, v.String())
	}
	want := []string{
		"PASS get_vs_reverseproxy 0.60x (target <= 0.60x)",
		"MISS get_vs_nginx 3.00x (target <= 2.50x)",
		"MISS refuse_vs_nginx 2.60x (target <= 2.50x)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if text := r.markdown(); !strings.Contains(text, "| comporta, whole gate | 6.00 | 6.00–7.00 | 3.00 | 16667 | 1.00 | 9.00 | 1 |\n") {
		t.Errorf("got\n%s", text)
	}
}

var verdict = regexp.MustCompile(`(?m)^(PASS|MISS) (\S+) (.+) \(target (.+)\)$`)

// One round of a few rows, from the build to the verdicts.
func TestRun(t *testing.T) {
	if err := needed("taskset", "wrk", "nginx", "haproxy"); err != nil {
		t.Skip(err)
	}
	if _, err := choose(); err != nil {
		t.Skip(err)
	}
	var out, complaints bytes.Buffer
	status := run(t.Context(), []string{"-rounds", "1", "-only", "GET.*(ReverseProxy|gate)|POST.*gate|refusal.*(nginx|gate)"}, &out, &complaints)
	if !strings.HasPrefix(complaints.String(), "proxy: below") || strings.Count(complaints.String(), "\n") > 1 {
		t.Fatal(complaints.String())
	}
	var names []string
	want := 0
	for _, m := range verdict.FindAllStringSubmatch(out.String(), -1) {
		names = append(names, m[2])
		if m[1] == "MISS" {
			want = 1
		}
	}
	if status != want || strings.Join(names, " ") != "get_vs_reverseproxy refuse_vs_nginx" {
		t.Errorf("status %d, targets %s\n%s", status, names, &out)
	}
}

func TestRunBadFlags(t *testing.T) {
	for _, args := range [][]string{
		{"-rounds", "0"}, {"-seconds", "0"}, {"-only", "("}, {"-no-such"}, {roleCommand}, {roleCommand, "nobody"},
		{"-rounds", "7", "-update-readme", "README.md"}, {"-only", "nginx", "-update-readme", "README.md"},
	} {
		if status := run(t.Context(), args, io.Discard, io.Discard); status != 2 {
			t.Errorf("%v: status %d", args, status)
		}
	}
}
