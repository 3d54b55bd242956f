package overload

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/comporta/comporta"
)

const (
	problemsFile = "../../docs/problems.md"
	tableBegin   = "<!-- codes: generated, run go test ./gate/overload -update -->\n"
	tableEnd     = "<!-- /codes -->\n"
)

// TestProblemsPage keeps docs/problems.md true: the type of every refusal leads
// to a section there, in the order of the reasons, and the table is generated.
func TestProblemsPage(t *testing.T) {
	text, err := os.ReadFile(problemsFile)
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	head, rest, ok := strings.Cut(page, tableBegin)
	_, tail, ok2 := strings.Cut(rest, tableEnd)
	if !ok || !ok2 {
		t.Fatalf("%s has lost the marks of its table", problemsFile)
	}
	if want := head + tableBegin + codeTable() + tableEnd + tail; page != want {
		if !*update {
			t.Fatalf("the table of %s is old: go test ./gate/overload -update", problemsFile)
		}
		if err := os.WriteFile(problemsFile, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sections := strings.Split(tail, "\n## ")[1:]
	for i, section := range sections {
		reason := comporta.Reason(i + 1)
		if title, _, _ := strings.Cut(section, "\n"); title != reason.String() {
			t.Fatalf("section %d is %q, want %v", i+1, title, reason)
		}
		for _, part := range []string{"\n**Client:** ", "\n**Operator:** "} {
			if strings.Count(section, part) != 1 {
				t.Errorf("%v: want one %q", reason, part)
			}
		}
	}
	if len(sections) != int(comporta.NumReasons)-1 {
		t.Errorf("%d sections, want %d", len(sections), comporta.NumReasons-1)
	}
}

// codeTable is the table of all codes.
func codeTable() string {
	var b strings.Builder
	b.WriteString("| code | status | gRPC | retryable | pt-BR | when |\n|---|---|---|---|---|---|\n")
	for r := comporta.ReasonNone + 1; r < comporta.NumReasons; r++ {
		info := r.Info()
		status, retryable := fmt.Sprint(info.Status), fmt.Sprint(info.Retryable)
		switch r {
		case comporta.UpstreamFailed, comporta.UpstreamTimeout:
			retryable += "`*`"
		case comporta.HopelessRepeat:
			status += "`**`"
		default:
		}
		portuguese := info.Portuguese
		if portuguese == "" {
			portuguese = info.Code
		}
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s | %d | %s | `%s` | %s |\n",
			info.Code, info.Code, status, grpcCodes[r], retryable, portuguese, info.Meaning)
	}
	return b.String()
}

// TestWirePage checks that docs/wire.md names what the code writes.
func TestWirePage(t *testing.T) {
	text, err := os.ReadFile("../../docs/wire.md")
	if err != nil {
		t.Fatal(err)
	}
	page := regexp.MustCompile(`\s+`).ReplaceAllString(string(text), " ")
	for _, want := range []string{
		comporta.HeaderRetryAttempt, comporta.HeaderIdempotencyKey, comporta.HeaderRequestTimeoutMs,
		comporta.HeaderClientVersion, comporta.HeaderRetryTicket, comporta.HeaderRetryAfter, "retry-after-ms",
		"x-should-retry", comporta.HeaderRetryPolicy, comporta.HeaderDecision, "grpc-retry-pushback-ms", exposed,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("docs/wire.md does not name %q", want)
		}
	}
}
