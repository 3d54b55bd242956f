package config

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite golden files, the schema and the reference")

// loadText loads a file that is not there.
func loadText(t testing.TB, text string, in Input) (*Config, []Problem, Problems) {
	t.Helper()
	in.File = "comporta.yaml"
	c, warnings, err := newLoader(in).load(in, []byte(text))
	if err == nil {
		return c, warnings, nil
	}
	problems, ok := errors.AsType[Problems](err)
	if !ok || len(problems) == 0 || c != nil {
		t.Fatalf("got %v, %v, want no config and problems", c, err)
	}
	return nil, warnings, problems
}

func mustLoad(t testing.TB, text string, in Input) *Config {
	t.Helper()
	in.WithoutUpstream = true
	c, _, problems := loadText(t, text, in)
	if problems != nil {
		t.Fatal(problems)
	}
	return c
}

// golden compares got with a file beside the tests, or rewrites it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; go test -update, and look at the difference\n--- got\n%s\n--- want\n%s", name, got, want)
	}
}

// directives are comments at the head of a file of testdata: `#env NAME=value`,
// `#flag name path value`, `#serve` for the rule that an upstream is needed.
func directives(text string) Input {
	in := Input{WithoutUpstream: true}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if env, ok := strings.CutPrefix(line, "#env "); ok {
			in.Env = append(in.Env, env)
		}
		if f, ok := strings.CutPrefix(line, "#flag "); ok {
			part := strings.SplitN(f, " ", 3)
			in.Flags = append(in.Flags, Flag{part[0], part[1], part[2]})
		}
		if line == "#serve" {
			in.WithoutUpstream = false
		}
	}
	return in
}

func files(t *testing.T, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("no %s: %v", pattern, err)
	}
	return names
}

func TestGood(t *testing.T) {
	for _, name := range files(t, "testdata/good/*.yaml") {
		t.Run(filepath.Base(name), func(t *testing.T) {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			c, warnings, problems := loadText(t, string(data), directives(string(data)))
			if problems != nil {
				t.Fatal(problems)
			}
			var b bytes.Buffer
			if err := c.Render(&b); err != nil {
				t.Fatal(err)
			}
			rendered := b.String()
			for _, w := range warnings {
				b.WriteString("---- warning\n" + w.String() + "\n")
			}
			golden(t, name+".golden", b.String())
			again := mustLoad(t, rendered, Input{})
			if !strings.Contains(rendered, redacted) && !sameValues(c, again) {
				t.Errorf("the effective configuration means something else when loaded:\n%s", rendered)
			}
		})
	}
}

func sameValues(a, b *Config) bool {
	x, y := *a, *b
	x.origins, y.origins = nil, nil
	return reflect.DeepEqual(x, y)
}

func TestBad(t *testing.T) {
	names := files(t, "testdata/bad/*.yaml")
	if len(names) < 40 {
		t.Errorf("%d mistakes are tried, want at least 40", len(names))
	}
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			_, _, problems := loadText(t, string(data), directives(string(data)))
			if problems == nil {
				t.Fatal("accepted")
			}
			golden(t, name+".golden", problems.Error()+"\n")
			for _, secret := range []string{"hunter2", "sk_live"} {
				if strings.Contains(problems.Error(), secret) {
					t.Errorf("the problem tells the secret:\n%v", problems)
				}
			}
		})
	}
}

// The example of the interface, to the letter.
func TestFormatOfAProblem(t *testing.T) {
	_, _, problems := loadText(t, "# capacity\n#\nadmission:\n  reserve: 3\n", Input{WithoutUpstream: true})
	want := `comporta.yaml:4:12: admission.reserve: 3 is not a fraction
    4 |   reserve: 3
      |            ^ 0.3 keeps 30% of the capacity for originals`
	if got := problems.Error(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Bad input (issue 2): every problem at once, in the order of the file, then
// variables, then flags.
func TestAllProblemsAtOnce(t *testing.T) {
	_, _, problems := loadText(t, "upstream: {urls: [ftp://x]}\nlisten: 1\nbogus: 1\n", Input{
		Env:   []string{"COMPORTA_SLOTS_GRACE=x", "COMPORTA_ADMISSION_MODE=x"},
		Flags: []Flag{{"admin", "admin.listen", "0.0.0.0:1"}},
	})
	var got []string
	for _, p := range problems {
		got = append(got, p.Source+" "+p.Path)
	}
	want := []string{
		"comporta.yaml upstream.urls[0]", "comporta.yaml listen[0]", "comporta.yaml bogus",
		"COMPORTA_ADMISSION_MODE admission.mode", "COMPORTA_SLOTS_GRACE slots.grace", "-admin admin.listen",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestOrder(t *testing.T) {
	const file = "upstream: {timeout: 1s, max_connections: 7}\nslots: {grace: 1s}\n"
	env := []string{"COMPORTA_UPSTREAM_TIMEOUT=2s", "COMPORTA_SLOTS_GRACE=2s", "COMPORTA_SLOTS_GRACE=4s"}
	c := mustLoad(t, file, Input{Env: env, Flags: []Flag{{"timeout", "upstream.timeout", "3s"}}})
	if c.Upstream.Timeout != 3*time.Second || c.Slots.Grace != 4*time.Second || c.Upstream.MaxConnections != 7 || c.Slots.Base != time.Second {
		t.Errorf("got %+v, %+v", c.Upstream, c.Slots)
	}
	for path, want := range map[string]string{
		"upstream.timeout": "-timeout", "slots.grace": "COMPORTA_SLOTS_GRACE",
		"upstream.max_connections": "comporta.yaml:1", "slots.base": "comporta.yaml:2", "drain.soft": "default",
	} {
		if got := c.origins.at(path).String(); path != "slots.base" && got != want {
			t.Errorf("%s comes from %s, want %s", path, got, want)
		}
	}
}

func TestEveryKeyHasAVariable(t *testing.T) {
	paths := map[string]string{}
	root().walk("", func(path string, _ *schema) {
		name := envName(path)
		if other, ok := paths[name]; ok {
			t.Errorf("%s sets %s and %s", name, path, other)
		}
		paths[name] = path
		if foreign(name) || serviceLink.MatchString(name) {
			t.Errorf("%s is reserved, and cannot set %s", name, path)
		}
		if s, _ := locate(path, reflect.ValueOf(new(Config)).Elem()); s == nil {
			t.Errorf("%s is not found", path)
		}
	})
}

func TestEnvironmentOfOthers(t *testing.T) {
	mustLoad(t, "", Input{Env: []string{
		"COMPORTA_TEST_REDIS_URL=x", "COMPORTA_CHECK_CLIENT=x", "PATH=/bin", "NO_EQUALS_SIGN",
		"COMPORTA_SERVICE_HOST=10.0.0.1", "COMPORTA_SERVICE_PORT=80", "COMPORTA_SERVICE_PORT_HTTP=80",
		"COMPORTA_PORT=tcp://10.0.0.1:80", "COMPORTA_PORT_80_TCP=tcp://10.0.0.1:80", "COMPORTA_PORT_80_TCP_ADDR=10.0.0.1",
		"COMPORTA_ADMIN_SERVICE_HOST=10.0.0.1", "COMPORTA_ADMIN_PORT_9900_TCP_PROTO=tcp",
		"COMPORTA_REDIS_URL=", "COMPORTA_UPSTREAM_RETRIES=off",
	}})
}

func TestExpand(t *testing.T) {
	env := map[string]string{"A": "1", "EMPTY": "", "EVIL": "x: y\n- z"}
	for text, want := range map[string]string{
		"":                  "",
		"plain $A $":        "plain $A $",
		"${A}":              "1",
		"a${A}b${A}":        "a1b1",
		"${B:-x}":           "x",
		"${B:-}":            "",
		"${A:-x}":           "1",
		"${EMPTY:-x}":       "x",
		"${EMPTY}":          "",
		"${EVIL}":           "x: y\n- z",
		"$${A}":             "${A}",
		"$$${A}":            "$${A}",
		"${B:-a:-b}":        "a:-b",
		"${B:-http://h:1/}": "http://h:1/",
	} {
		got, f := expand(text, env)
		if f != nil || got != want {
			t.Errorf("expand(%q) = %q, %v, want %q", text, got, f, want)
		}
	}
	for _, text := range []string{"${B}", "${", "${}", "${A", "${1}", "${A-x}", "${A b}", "x ${:-y}"} {
		if got, f := expand(text, env); f == nil {
			t.Errorf("expand(%q) = %q, want a fault", text, got)
		}
	}
	if _, f := expand(strings.Repeat("${A}", 1000), map[string]string{"A": strings.Repeat("x", 1000)}); f == nil {
		t.Error("a scalar grows without bound")
	}
	if got, _ := expand(escape("a ${B} $${C}"), nil); got != "a ${B} $${C}" {
		t.Errorf("escape is not undone: %q", got)
	}
}

// A value can never change the structure.
func TestExpansionIsNotText(t *testing.T) {
	c := mustLoad(t, "contract: {cors: {origins: [\"${A}\"]}}\nkeys: {file: \"${F}\"}\n", Input{Env: []string{"A=https://a", "F=a, b]}: #"}})
	if c.Keys.File != "a, b]}: #" || len(c.Contract.CORS.Origins) != 1 {
		t.Errorf("got %+v %+v", c.Keys, c.Contract)
	}
}

func TestLists(t *testing.T) {
	c := mustLoad(t, "clients: {trusted_proxies: [10.0.0.0/8, 1.2.3.4]}\n", Input{Env: []string{
		"COMPORTA_LISTEN=:80, [::1]:81",
		"COMPORTA_UPSTREAM_URLS=http://a, http://b",
		"COMPORTA_CLIENTS_TRUSTED_PROXIES=",
		"COMPORTA_CLIENTS_MINIMUM_VERSION=acme-go=2.1.0-rc.1,require=true",
		"COMPORTA_CLIENTS_NAMES=acme=0123456789abcdef",
	}})
	if len(c.Listen) != 2 || c.Listen[1].Addr != "[::1]:81" || !c.Listen[1].H2C {
		t.Errorf("listen: %+v", c.Listen)
	}
	if len(c.Upstream.URLs) != 2 || c.Upstream.URLs[1].Host != "b" {
		t.Errorf("urls: %v", c.Upstream.URLs)
	}
	if len(c.Clients.TrustedProxies) != 0 || c.Clients.Names["acme"] != "0123456789abcdef" {
		t.Errorf("clients: %+v", c.Clients)
	}
	if mv := c.Clients.MinimumVersion; !mv.Require || mv.Versions["acme-go"] != "2.1.0-rc.1" || len(mv.Versions) != 1 {
		t.Errorf("minimum versions: %+v", mv)
	}
}

func TestCapacity(t *testing.T) {
	for _, tt := range []struct {
		file string
		env  []string
		want Capacity
	}{
		{"", nil, Capacity{0, 32, 2, 1000}},
		{"auto", nil, Capacity{0, 32, 2, 1000}},
		{"40", nil, Capacity{40, 32, 2, 1000}},
		{`"40"`, nil, Capacity{40, 32, 2, 1000}},
		{"{max: 20}", nil, Capacity{0, 20, 2, 20}},
		{"{min: 50}", nil, Capacity{0, 50, 50, 1000}},
		{"{initial: 8, max: 20}", []string{"COMPORTA_ADMISSION_CAPACITY=auto"}, Capacity{0, 32, 2, 1000}},
		{"40", []string{"COMPORTA_ADMISSION_CAPACITY={}"}, Capacity{}},
		{"{initial: 8}", []string{"COMPORTA_ADMISSION_CAPACITY_MAX=9"}, Capacity{0, 8, 2, 9}},
		{"40", []string{"COMPORTA_ADMISSION_CAPACITY_MAX=9"}, Capacity{}},
		{"40", []string{"COMPORTA_ADMISSION_CAPACITY=auto", "COMPORTA_ADMISSION_CAPACITY_MAX=9"}, Capacity{0, 9, 2, 9}},
	} {
		text := ""
		if tt.file != "" {
			text = "admission: {capacity: " + tt.file + "}\n"
		}
		c, _, problems := loadText(t, text, Input{WithoutUpstream: true, Env: tt.env})
		switch {
		case c == nil && tt.want != Capacity{}:
			t.Errorf("%s %v: %v", tt.file, tt.env, problems)
		case c != nil && c.Admission.Capacity != tt.want:
			t.Errorf("%s %v: got %+v, want %+v", tt.file, tt.env, c.Admission.Capacity, tt.want)
		}
	}
}

func TestDerived(t *testing.T) {
	c := mustLoad(t, "slots: {mode: hash}\nlisten: [{addr: :443, tls: {cert_file: c, key_file: k}}, {addr: :80}]\nroutes: [{match: /a}, {match: /b, name: bee}]\n", Input{})
	if c.Slots.Base != 10*time.Second {
		t.Errorf("base of mode hash is %v", c.Slots.Base)
	}
	if c.Listen[0].H2C || !c.Listen[1].H2C || c.Listen[0].TLS.MinVersion != 0x0303 {
		t.Errorf("got %+v", c.Listen)
	}
	if c.Routes[0].Label() != "/a" || c.Routes[1].Label() != "bee" {
		t.Errorf("got %+v", c.Routes)
	}
	if c := mustLoad(t, "slots: {mode: hash, base: 3s}\n", Input{}); c.Slots.Base != 3*time.Second {
		t.Errorf("a base that is set is kept: %v", c.Slots.Base)
	}
}

func TestFileOnDisk(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "comporta.yaml")
	if err := os.WriteFile(name, []byte("\ufeffupstream: {urls: [http://127.0.0.1:1]}\r\nkeys: {file: "+filepath.Join(dir, "keys")+"}\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, _, err := Load(Input{File: name})
	if err != nil {
		t.Fatal(err)
	}
	problems, _ := errors.AsType[Problems](c.CheckFiles())
	if len(problems) != 1 || problems[0].Path != "keys.file" || problems[0].Line != 2 {
		t.Errorf("got %v, want the missing file of keys", problems)
	}
	if err := os.WriteFile(filepath.Join(dir, "keys"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.CheckFiles(); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{filepath.Join(dir, "absent.yaml"), dir} {
		_, _, err := Load(Input{File: bad})
		problems, _ := errors.AsType[Problems](err)
		if len(problems) != 1 || problems[0].Source != bad {
			t.Errorf("got %v, want one problem with %s", err, bad)
		}
	}
}

func TestBounds(t *testing.T) {
	const aliased = 2000
	for name, tt := range map[string]struct{ text, message string }{
		"size":     {strings.Repeat("#", MaxFile+1), "the file is larger than 1MiB"},
		"depth":    {strings.Repeat("[", 100_000), "depth"},
		"aliases":  {"routes:\n- &a {match: /a" + strings.Repeat(", k: 1", aliased) + "}\n" + strings.Repeat("- *a\n", aliased), "more problems"},
		"list":     {"routes: [" + strings.Repeat("{},", 60_000) + "]", "more problems"},
		"values":   {"contract: {cors: {origins: [" + strings.Repeat("http://a,", 55_000) + "]}}\n", "too many values"},
		"problems": {"upstream: {urls: [" + strings.Repeat("'http://a',", 20_000) + "]}\n", "more problems"},
		"later":    {"store: &a {" + strings.Repeat("k: 1, ", aliased) + "}\nredis: *a\nchallenge: *a\n", "more problems"},
	} {
		t.Run(name, func(t *testing.T) {
			in := Input{File: "comporta.yaml", WithoutUpstream: true}
			l := newLoader(in)
			if _, _, err := l.load(in, []byte(tt.text)); err == nil || !strings.Contains(err.Error(), tt.message) {
				t.Errorf("got no problem with %q", tt.message)
			}
			if len(l.problems) > maxProblems || len(l.broken) > maxProblems {
				t.Errorf("%d problems, %d broken paths", len(l.problems), len(l.broken))
			}
			if l.budget < -100 {
				t.Errorf("the loader went on for %d values beyond its budget", -l.budget)
			}
		})
	}
}

// Credentials in URLs are masked in messages and in lines, carets unmoved.
func TestMask(t *testing.T) {
	for text, want := range map[string]string{
		"http://a:b@h/":            "http://***@h/",
		"x http://é:p@ss/w@h, y":   "x http://********@h, y",
		"[http://a@h, http://b@h]": "[http://*@h, http://*@h]",
		"http://h/?m=a@b":          "http://******@b", // rather too much
		"http://h":                 "http://h",
	} {
		got := mask(text)
		if len([]rune(got)) != len([]rune(text)) {
			t.Errorf("mask(%q) = %q, which moves the caret", text, got)
		}
		if got != want {
			t.Errorf("mask(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestSelfAlias(t *testing.T) {
	for _, text := range []string{"listen: &x [*x]\n", "&x : *x\n", "routes: &x [{match: *x}]\n", "admin: &x {listen: *x}\n", "redis: &x {url: *x}\n"} {
		if _, _, problems := loadText(t, text, Input{WithoutUpstream: true}); problems == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

func TestAnchorsAreRead(t *testing.T) {
	c := mustLoad(t, "routes:\n- {match: /a, timeout: &t 7s}\n- {match: /b, timeout: *t}\n", Input{})
	if c.Routes[1].Timeout != 7*time.Second {
		t.Errorf("got %+v", c.Routes[1])
	}
}

func TestLineNumbersSurviveOddLineBreaks(t *testing.T) {
	_, _, problems := loadText(t, "a: 1\u2028\u0085b: 2\rc: 3\n", Input{WithoutUpstream: true})
	_ = problems.Error() // must not index beyond the lines
}

func TestLongLinesAreCut(t *testing.T) {
	_, _, problems := loadText(t, "bogus: ["+strings.Repeat("x, ", 5000)+"]\nkeys: {file: '"+strings.Repeat("é", 5000)+"', bogus: 1}", Input{WithoutUpstream: true})
	for line := range strings.Lines(problems.Error()) {
		if n := len([]rune(line)); n > 400 {
			t.Errorf("a line of %d characters: %s", n, line)
		}
	}
}
