package measure

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
)

// Machine names what measured: Go, system and processor.
func Machine() string {
	return fmt.Sprintf("%s on %s/%s, %s", runtime.Version(), runtime.GOOS, runtime.GOARCH, processor())
}

// processor names the CPU where the system tells it.
func processor() string {
	name := "unknown CPU"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
				name = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%s, %d CPUs", name, runtime.NumCPU())
}

// BeginMark is the line of a file after which the report of a program stands, up
// to its EndMark.
func BeginMark(program string) string {
	return "<!-- bench-" + program + ": written by make bench-" + program + ", see bench/" + program + " -->"
}

// EndMark ends what BeginMark begins.
func EndMark(program string) string { return "<!-- bench-" + program + " end -->" }

// replace puts the report between the marks of a text.
func replace(text []byte, program, report string) ([]byte, error) {
	begin, end := BeginMark(program), EndMark(program)
	head, rest, ok := bytes.Cut(text, []byte(begin))
	_, tail, closed := bytes.Cut(rest, []byte(end))
	if !ok || !closed {
		return nil, errors.New("the marks are missing: put " + begin + " and " + end + " where the report is to stand")
	}
	return bytes.Join([][]byte{head, []byte(begin), []byte("\n" + report), []byte(end), tail}, nil), nil
}

// Update rewrites the report of a program in a file.
func Update(name, program, report string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	text, err = replace(text, program, report)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return os.WriteFile(name, text, 0o644) //nolint:gosec // a README is for everybody to read
}
