package live

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Screen shows a storm while it runs: redrawn in place on a terminal, one line a
// second and the chart at the end elsewhere. Its methods are for one goroutine
// at a time.
type Screen struct {
	w       io.Writer
	title   string
	redraws bool
	lines   int           // drawn, and to be drawn over
	told    time.Duration // Elapsed of the last line
	err     error         // the first; nothing is written after it
}

// NewScreen returns a Screen that writes to w; redraws says that w is a terminal.
func NewScreen(w io.Writer, title string, redraws bool) *Screen {
	s := &Screen{w: w, title: title, redraws: redraws}
	s.write("\n" + title + "\n")
	return s
}

// Show is a Storm's Watch.
func (s *Screen) Show(rec *Recording) {
	if s.redraws {
		s.draw(rec)
		return
	}
	if rec.Elapsed-s.told >= time.Second-Interval/2 {
		s.told = rec.Elapsed
		s.write(progress(rec))
	}
}

// Finish shows the whole, and returns the first error of writing.
func (s *Screen) Finish(rec *Recording) error {
	s.draw(rec)
	return s.err
}

// draw goes back to where the last chart began, and draws over it.
func (s *Screen) draw(rec *Recording) {
	chart := Chart(rec)
	if s.lines > 0 {
		chart = fmt.Sprintf("\x1b[%dA", s.lines) + strings.ReplaceAll(chart, "\n", "\x1b[K\n")
	}
	if s.redraws {
		s.lines = strings.Count(chart, "\n")
	}
	s.write(chart)
}

func (s *Screen) write(text string) {
	if s.err == nil {
		_, s.err = io.WriteString(s.w, text)
	}
}

// progress is one line on the second before, and on those who began one before
// their time was up.
func progress(rec *Recording) string {
	last, _ := rec.sum(max(int((rec.Elapsed-time.Second)/Interval), 0), time.Second)
	line := fmt.Sprintf("%4.0fs  received %4.1fx  repeats %3.0f%%  refused %3.0f%%",
		rec.Elapsed.Seconds(), float64(last.Requests())/rec.Scenario.Demand,
		percent(last.Repeats, last.Requests()), percent(last.Refused(), last.Requests()))
	if from := rec.Elapsed - time.Second - rec.Scenario.FreshWithin; from >= 0 {
		users, _ := rec.sum(int(from/Interval), time.Second)
		line += fmt.Sprintf("  users of %2.0fs ago served %3.0f%%", (rec.Elapsed - from).Seconds(), percent(users.Fresh, users.Began))
	}
	return line + "\n"
}

func percent(part, whole int) float64 { return 100 * float64(part) / float64(max(whole, 1)) }
