package framing

import (
	"fmt"
	"slices"
	"strings"
)

// judge says what is wrong with a result. A nil record judges the answers alone.
func judge(c *Case, r *Result, seen *record) []string {
	problems := r.Problems
	add := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if r.Silent {
		add("neither an answer nor a close in time")
	}
	refused := slices.Contains(c.Refuse, r.Status) && (r.Status != StatusNone || !r.Silent)
	served := c.Serve != nil && slices.Contains(c.Answer, r.Status)
	if served && refused && seen != nil { // the status alone does not tell
		refused = len(without(seen.arrivals)) == 0
		served = !refused
	}
	if !served && !refused {
		add("status %s, want %s", word(r.Status), wanted(c))
	}
	then := c.Then
	if then == "" {
		then = ThenKeep
		if refused || !served && c.Serve == nil {
			then = ThenClose
		}
	}
	switch {
	case then == ThenClose && r.Probed:
		add("what follows it on the connection was served")
	case then == ThenClose && !r.Closed && !r.Silent:
		add("the connection stays open")
	case then == ThenKeep && !r.Probed && !r.Silent:
		add("what follows it on the connection was not served")
	}
	if seen != nil {
		problems = append(problems, judgeRecord(c, seen, served, then, r.Probed)...)
	}
	return problems
}

// judgeRecord says what is wrong with what reached the service.
func judgeRecord(c *Case, seen *record, served bool, then string, probed bool) []string {
	var problems []string
	add := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	probes := 0
	for i := range seen.arrivals {
		a := &seen.arrivals[i]
		if a.line == probeLine {
			probes++
		}
		for _, f := range a.faults {
			add("the service got %q: %s", a.line, f)
		}
	}
	if probes > 0 && !probed || probes > 1 {
		add("the service got the probe, %d times", probes)
	}
	if then == ThenClose && probes > 0 {
		add("the service got what follows a request that ends its connection")
	}
	arrivals := without(seen.arrivals)
	switch {
	case served && len(arrivals) != 1:
		add("the service got %d requests, want 1: %s", len(arrivals), lines(arrivals))
	case served:
		problems = append(problems, judgeArrival(c, &arrivals[0])...)
	case c.InBody && len(arrivals) == 1 && !arrivals[0].complete:
	case len(arrivals) > 0:
		add("the service got %s", lines(arrivals))
	}
	if c.Unlink && served && (seen.hungUp != 1 || seen.reused > 0) {
		add("the connection to the service stays open")
	}
	return problems
}

// judgeArrival holds a request that was served against what it should have become.
func judgeArrival(c *Case, a *arrival) []string {
	var problems []string
	add := func(format string, args ...any) {
		problems = append(problems, fmt.Sprintf("the service got "+format, args...))
	}
	if a.line != c.Serve.Line {
		add("%q, want %q", a.line, c.Serve.Line)
	}
	if !a.early && (!a.complete || string(a.body) != c.Serve.Body) {
		add("the body %q (complete: %v), want %q", a.body, a.complete, c.Serve.Body)
	}
	for _, want := range c.Serve.Fields {
		name, value, _ := strings.Cut(want, ":")
		if got := a.values(name); !slices.Equal(got, []string{strings.TrimSpace(value)}) {
			add("%s: %q, want %q", name, got, strings.TrimSpace(value))
		}
	}
	for _, name := range c.Without {
		for _, f := range slices.Concat(a.fields, a.trailers) {
			if strings.EqualFold(f.name, name) {
				add("the field %s: %q", f.name, f.value)
			}
		}
	}
	return problems
}

// without leaves out the probes and fences.
func without(arrivals []arrival) []arrival {
	var rest []arrival
	for i := range arrivals {
		if !clean(arrivals[i].line) {
			rest = append(rest, arrivals[i])
		}
	}
	return rest
}

func lines(arrivals []arrival) string {
	all := make([]string, len(arrivals))
	for i := range arrivals {
		all[i] = fmt.Sprintf("%q", arrivals[i].line)
	}
	return strings.Join(all, ", ")
}

func word(status int) string {
	if status == StatusNone {
		return "none"
	}
	return fmt.Sprint(status)
}

func wanted(c *Case) string {
	var all []string
	for _, s := range slices.Concat(c.Refuse, c.Answer) {
		all = append(all, word(s))
	}
	return strings.Join(all, " or ")
}
