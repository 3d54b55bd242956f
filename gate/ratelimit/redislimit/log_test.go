package redislimit

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// What the client says goes to the log at debug, and nowhere at info.
func TestClientLog(t *testing.T) {
	for level, want := range map[slog.Level]string{slog.LevelInfo: "", slog.LevelDebug: `said="pool of 3"`} {
		var out bytes.Buffer
		l := clientLog{slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level}))}
		l.Printf(t.Context(), "pool of %d", 3)
		if got := out.String(); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("at %v: %q", level, got)
		}
	}
}
