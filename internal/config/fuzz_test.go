package config

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

// FuzzLoad feeds the loader with files: it never panics, always ends soon, tells
// problems that point into the file, and what it accepts it also accepts after
// writing it down.
func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"testdata/good/*.yaml", "testdata/bad/*.yaml"} {
		t := &testing.T{}
		for _, name := range files(t, pattern) {
			data, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(string(data), "1s")
		}
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		in := directives(text)
		in.File = "comporta.yaml"
		in.Env = append(in.Env, "X="+value, "COMPORTA_SLOTS_BASE="+value, "COMPORTA_CLIENTS_NAMES="+value, "COMPORTA_LISTEN="+value)
		in.Flags = append(in.Flags, Flag{"set", value, value})
		if len(value)%2 == 0 { // half of the time only the file speaks
			in.Env, in.Flags = in.Env[:len(in.Env)-3], in.Flags[:len(in.Flags)-1]
		}
		started := time.Now()
		c, warnings, err := newLoader(in).load(in, []byte(text))
		if d := time.Since(started); d > 10*time.Second {
			t.Errorf("%d bytes took %v", len(text), d)
		}
		for _, w := range warnings {
			_ = w.String()
		}
		if err != nil {
			problems, ok := errors.AsType[Problems](err)
			if !ok || len(problems) == 0 || len(problems) > maxProblems || c != nil {
				t.Fatalf("%T, %d problems, config %v", err, len(problems), c)
			}
			for _, p := range problems {
				if p.Message == "" || p.Line < 0 || p.Caret < 0 || p.Caret > maxExcerpt+1 {
					t.Errorf("%#v", p)
				}
			}
			if strings.ContainsAny(problems.Error(), "\x00\x1b") {
				t.Errorf("control characters reach the terminal: %q", problems.Error())
			}
			return
		}
		var b bytes.Buffer
		if err := c.Render(&b); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), redacted) {
			return
		}
		again := mustLoad(t, b.String(), Input{})
		if !sameValues(c, again) {
			t.Errorf("written down it means something else:\n%s", b.String())
		}
	})
}

// FuzzExpand checks that expansion ends, never panics, and undoes escape.
func FuzzExpand(f *testing.F) {
	f.Add("${A}", "x")
	f.Add("$${A} ${B:-y}", "${A}")
	f.Fuzz(func(t *testing.T, text, value string) {
		if got, bad := expand(text, map[string]string{"A": value}); bad == nil && len(got) > maxExpanded+len(text)+len(value) {
			t.Errorf("%d bytes became %d", len(text), len(got))
		}
		if got, bad := expand(escape(text), nil); bad != nil || got != text && !strings.Contains(text, "$${") {
			t.Errorf("%q escaped and expanded is %q, %v", text, got, bad)
		}
	})
}
