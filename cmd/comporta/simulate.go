package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/comporta/comporta/storm/sim"
	"github.com/comporta/comporta/storm/sim/report"
)

// simulation is what `comporta simulate` was asked for.
type simulation struct {
	scenario sim.Scenario
	expect   []sim.Expectation
	defences []string
	seeds    int
}

// simulateResult is what -json prints.
type simulateResult struct {
	Scenario string        `json:"scenario"`
	Set      string        `json:"set,omitempty"` // of a sweep: key=value
	Runs     []*sim.Result `json:"runs"`
	Bound    sim.Bound     `json:"bound"`
}

const maxSeeds = 1000

// runSimulate is `comporta simulate`: a storm in virtual time, and what defences
// make of it. It ends with exitFailed if an expectation of the scenario's file does
// not hold.
func runSimulate(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	f := newFlags("simulate", stdout, stderr)
	seeds := f.Int("seeds", 3, "play each defence with the seeds 1 to `N`")
	compare := f.String("compare", "", "the defences, separated by commas; 'all' for every one (default none,limit,article,ours)")
	sweep := f.String("sweep", "", "play it for several values, `key=lo:hi:n`")
	var sets settings
	f.Var(&sets, "set", "change one value of the scenario, `key=value`; may be repeated")
	dir := f.String("out", "", "write report.html, report.svg and report.csv into `DIR`")
	asJSON := f.Bool("json", false, "print a JSON document instead of the chart; of a sweep, one for each value")
	asCSV := f.Bool("csv", false, "print a CSV of all minutes instead of the chart")
	list := f.Bool("list", false, "list the scenarios and the defences")
	rest, code, done := f.parse(args)
	switch {
	case done:
		return code
	case *list:
		listSimulations(stdout)
		return exitFine
	case len(rest) > 1:
		return f.misused("it takes one scenario, not %q", rest)
	case *seeds < 1 || *seeds > maxSeeds:
		return f.misused("-seeds %d is not within 1 and %d", *seeds, maxSeeds)
	case *asJSON && *asCSV:
		return f.misused("-json and -csv exclude each other")
	}
	s := simulation{seeds: *seeds}
	name := "incident"
	if len(rest) == 1 {
		name = rest[0]
	}
	if err := s.prepare(name, *compare, sets); err != nil {
		return f.misused("%v", err)
	}
	steps, err := sweepOf(s.scenario, *sweep)
	if err != nil {
		return f.misused("%v", err)
	}
	out := simulateOutput{flags: f, json: *asJSON, csv: *asCSV, dir: *dir, several: len(steps) > 1}
	for i := range steps {
		if err := ctx.Err(); err != nil {
			return f.failed(err)
		}
		if code = out.play(&s, &steps[i]); code != exitFine {
			return code
		}
	}
	return exitFine
}

// settings are the values of -set.
type settings []string

func (s *settings) String() string { return strings.Join(*s, " ") }

// Set implements flag.Value.
func (s *settings) Set(text string) error {
	if !strings.Contains(text, "=") {
		return fmt.Errorf("%q is no key=value", text)
	}
	*s = append(*s, text)
	return nil
}

// prepare reads the scenario and chooses the defences.
func (s *simulation) prepare(name, compare string, sets settings) error {
	var file []string
	var ok bool
	if s.scenario, ok = sim.Builtin(name); !ok {
		var err error
		if s.scenario, file, s.expect, err = readScenario(name); err != nil {
			return err
		}
	}
	for _, set := range sets {
		key, value, _ := strings.Cut(set, "=")
		if err := s.scenario.Set(key, value); err != nil {
			return err //nolint:wrapcheck // it names the key
		}
	}
	switch {
	case compare == "all":
		for _, d := range sim.Defences() {
			s.defences = append(s.defences, d.Name)
		}
	case compare != "":
		s.defences = strings.Split(compare, ",")
	case len(file) > 0:
		s.defences = file
	default:
		s.defences = []string{"none", "limit", "article", "ours"}
	}
	for i := range s.expect { // what is expected of a defence needs its runs
		if !slices.Contains(s.defences, s.expect[i].Defence) {
			s.defences = append(s.defences, s.expect[i].Defence)
		}
	}
	for _, d := range s.defences {
		if _, ok := sim.DefenceByName(d); !ok {
			return fmt.Errorf("there is no defence %q; -list names them", d)
		}
	}
	return s.scenario.Check() //nolint:wrapcheck // it names the field
}

// scenarioFile is a scenario in YAML: a built-in one to begin with, and what is
// different.
type scenarioFile struct {
	Base         string   `yaml:"base"`
	Compare      []string `yaml:"compare"`
	Expect       []string `yaml:"expect"`
	sim.Scenario `yaml:",inline"`
}

// readScenario reads a file. What it does not say is as in its base, the incident
// if it names none.
func readScenario(name string) (s sim.Scenario, compare []string, expect []sim.Expectation, err error) {
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil, nil, fmt.Errorf("there is no scenario %q, and no such file; -list names the scenarios", name)
	} else if err != nil {
		return s, nil, nil, err //nolint:wrapcheck // it names the file
	}
	var head struct {
		Base string `yaml:"base"`
	}
	if err := yaml.Unmarshal(data, &head); err != nil {
		return s, nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	file := scenarioFile{}
	if head.Base == "" {
		head.Base = "incident"
	}
	var ok bool
	if file.Scenario, ok = sim.Builtin(head.Base); !ok {
		return s, nil, nil, fmt.Errorf("%s: base: there is no scenario %q; -list names them", name, head.Base)
	}
	file.Name = strings.TrimSuffix(filepath.Base(name), filepath.Ext(name))
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return s, nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	for _, text := range file.Expect {
		e, err := sim.ParseExpectation(text)
		if err != nil {
			return s, nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		expect = append(expect, e)
	}
	return file.Scenario, file.Compare, expect, nil
}

// step is a scenario of a sweep.
type step struct {
	scenario sim.Scenario
	set      string
}

// sweepOf makes the scenarios of a sweep `key=lo:hi:n`; without one there is one.
func sweepOf(s sim.Scenario, text string) ([]step, error) {
	if text == "" {
		return []step{{scenario: s}}, nil
	}
	key, values, ok := strings.Cut(text, "=")
	parts := strings.Split(values, ":")
	if !ok || len(parts) != 3 {
		return nil, fmt.Errorf("-sweep %q; write key=lo:hi:n, such as service.slots=1.4:1.6:5", text)
	}
	lo, errLo := strconv.ParseFloat(parts[0], 64)
	hi, errHi := strconv.ParseFloat(parts[1], 64)
	n, errN := strconv.Atoi(parts[2])
	if errLo != nil || errHi != nil || errN != nil || n < 2 || n > 100 {
		return nil, fmt.Errorf("-sweep %q: lo and hi must be numbers and n within 2 and 100", text)
	}
	var steps []step
	for i := range n {
		value := strconv.FormatFloat(lo+(hi-lo)*float64(i)/float64(n-1), 'g', 6, 64)
		next := step{scenario: s, set: key + "=" + value}
		if err := errors.Join(next.scenario.Set(key, value), next.scenario.Check()); err != nil {
			return nil, err
		}
		steps = append(steps, next)
	}
	return steps, nil
}

// simulateOutput is where the results go.
type simulateOutput struct {
	*flags

	json, csv bool
	dir       string
	several   bool
}

// play plays one scenario and prints what came of it.
func (o *simulateOutput) play(s *simulation, at *step) int {
	progress := func(done, all int) { say(o.stderr, "\r%d of %d runs", done, all) }
	if !redraws(o.stderr) {
		progress = nil
	}
	summaries, err := sim.Compare(&at.scenario, s.defences, s.seeds, progress)
	if progress != nil {
		say(o.stderr, "\r%*s\r", len("1000 of 1000 runs"), "")
	}
	if err != nil {
		return o.failed(err)
	}
	if err := o.print(at, summaries); err != nil {
		return o.failed(err)
	}
	if o.dir != "" {
		if err := writeReports(o.fileDir(at), &at.scenario, summaries); err != nil {
			return o.failed(err)
		}
	}
	return o.judge(s.expect, summaries)
}

func (o *simulateOutput) fileDir(at *step) string {
	if at.set == "" {
		return o.dir
	}
	return filepath.Join(o.dir, at.set)
}

func (o *simulateOutput) print(at *step, summaries []sim.Summary) error {
	switch {
	case o.json:
		r := simulateResult{Scenario: at.scenario.Name, Set: at.set, Bound: sim.BoundOf(&at.scenario)}
		for i := range summaries {
			r.Runs = append(r.Runs, summaries[i].Runs...)
		}
		if code := printJSON(o.flags, r); code != exitFine {
			return errors.New("the result could not be printed")
		}
		return nil
	case o.csv:
		return report.CSV(o.stdout, summaries) //nolint:wrapcheck // the writer's own
	}
	if at.set != "" {
		say(o.stdout, "== %s\n", at.set)
	}
	return report.Text(o.stdout, &at.scenario, summaries) //nolint:wrapcheck // the writer's own
}

// judge says which expectations do not hold.
func (o *simulateOutput) judge(expect []sim.Expectation, summaries []sim.Summary) int {
	code := exitFine
	for _, e := range expect {
		if value, ok := e.Holds(summaries); !ok {
			say(o.stderr, "comporta simulate: expected %v, but it is %.4g\n", e, value)
			code = exitFailed
		}
	}
	return code
}

// writeReports writes the files of -out.
func writeReports(dir string, s *sim.Scenario, summaries []sim.Summary) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // reports are for reading
		return err //nolint:wrapcheck // it names the directory
	}
	for name, write := range map[string]func(io.Writer) error{
		"report.html": func(w io.Writer) error { return report.HTML(w, s, summaries) },
		"report.svg":  func(w io.Writer) error { return report.SVG(w, s, summaries) },
		"report.csv":  func(w io.Writer) error { return report.CSV(w, summaries) },
	} {
		var out bytes.Buffer
		if err := write(&out); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), out.Bytes(), 0o644); err != nil { //nolint:gosec // as above
			return err //nolint:wrapcheck // it names the file
		}
	}
	return nil
}

func listSimulations(w io.Writer) {
	names, abouts := sim.Builtins()
	say(w, "scenarios:\n")
	for i := range names {
		say(w, "  %-14s %s\n", names[i], abouts[i])
	}
	say(w, "\ndefences:\n")
	for _, d := range sim.Defences() {
		say(w, "  %-14s %s\n", d.Name, d.About)
	}
}
