package queue

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// snapshot is what the file adds up to at one length.
type snapshot struct {
	size int64
	text string
}

func (q *Queue) snapshot() snapshot {
	return snapshot{q.log.size, q.state.String()}
}

// String tells all of the state that outlives a process.
func (s *state) String() string {
	var b strings.Builder
	for _, e := range s.waiting {
		fmt.Fprintf(&b, "%s=%s x%d %s\n", e.key, e.payload, e.attempts, e.ticket)
	}
	for _, e := range s.dead {
		fmt.Fprintf(&b, "dead %s=%s x%d %s %d\n", e.key, e.payload, e.attempts, e.reason, e.deadAt)
	}
	fmt.Fprintf(&b, "%v %d", s.pause, s.failures)
	return b.String()
}

// history makes a file with records of every kind and returns the state after
// each record.
func history(t testing.TB, q *Queue) []snapshot {
	t.Helper()
	past := []snapshot{q.snapshot()}
	step := func() { past = append(past, q.snapshot()) }
	for _, k := range []string{"a", "b", "c"} {
		enqueue(t, q, start, k)
		step()
	}
	for i, r := range []Result{
		{Fate: Again}, {Fate: Done}, {Fate: Offline}, {Wait: time.Second, Ticket: "v1.t"}, {Fate: Never, Err: errBusy}, {Fate: Never},
	} {
		now := start.Add(time.Duration(i+1) * time.Hour)
		item := next(t, q, now)
		step()
		settle(t, q, now, item, r, 0.5)
		step()
	}
	letters := slices.Collect(q.Letters())
	if err := q.Revive(letters[0].ID); err != nil {
		t.Fatal(err)
	}
	step()
	if err := q.Discard(letters[1].ID); err != nil {
		t.Fatal(err)
	}
	step()
	enqueue(t, q, start, "d")
	step()
	return past
}

// cases/client.md D15: nothing is lost when the process dies at any byte of any write.
func TestCase_Client_D15_TornAtEveryByte(t *testing.T) {
	name := file(t)
	q := open(t, Config{Path: name})
	past := history(t, q)
	content := readFile(t, name)
	torn := filepath.Join(filepath.Dir(name), "torn")
	for length := range len(content) + 1 {
		if err := os.WriteFile(torn, content[:length], 0o600); err != nil {
			t.Fatal(err)
		}
		q, err := Open(Config{Path: torn})
		if length > 0 && length < headerSize { // cannot come about: the header is written under another name
			if !errors.Is(err, ErrNoQueue) {
				t.Fatalf("%d bytes of a header: %v", length, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("cut at %d: %v", length, err)
		}
		if q.Recovered().Skipped != 0 {
			t.Fatalf("cut at %d: %+v", length, q.Recovered())
		}
		// The state is that of the last whole write, or of a whole record of the next.
		i := max(0, firstAbove(past, int64(length))-1)
		if got := q.state.String(); got != past[i].text && !partly(content[:length], past[i].size, got) {
			t.Fatalf("cut at %d, after write %d:\n%s\nwant\n%s", length, i, got, past[i].text)
		}
		before := q.state.String()
		enqueue(t, q, start.Add(99*time.Hour), "later") // what comes after a torn tail is kept too
		want := q.state.String()
		q = reopen(t, q)
		if got := q.state.String(); got != want || !strings.Contains(got, "later=") || q.Recovered().Skipped+q.Recovered().Cut != 0 {
			t.Fatalf("cut at %d: %s, then one more: %s", length, before, got)
		}
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func firstAbove(past []snapshot, size int64) int {
	i := slices.IndexFunc(past, func(s snapshot) bool { return s.size > size })
	if i < 0 {
		return len(past)
	}
	return i
}

// partly reports whether got is what the whole records of the file add up to, of
// which the first end at size: a write of two records may be torn between them.
func partly(content []byte, size int64, got string) bool {
	marker, _ := parseHeader(content)
	_, first, whole := parseRecord(content[size:], marker)
	if !whole {
		return false
	}
	var s state
	replay(content[headerSize:size+int64(first)], marker, s.apply)
	return s.String() == got
}

// A byte that the medium lost costs its record and no other.
func TestDamageInTheMiddle(t *testing.T) {
	name := file(t)
	q := open(t, Config{Path: name})
	history(t, q)
	content := readFile(t, name)
	marker, _ := parseHeader(content)
	var places []int
	for pos := headerSize; pos < len(content); {
		_, size, ok := parseRecord(content[pos:], marker)
		if !ok {
			t.Fatal("the history is no log")
		}
		places = append(places, pos)
		pos += size
	}
	damaged := filepath.Join(filepath.Dir(name), "damaged")
	for i := headerSize; i < len(content); i += 3 { // every frame is hit; every byte would triple the time
		b := slices.Clone(content)
		b[i] ^= 0x10
		var want state
		hit, _ := slices.BinarySearch(places, i+1)
		for n, pos := range places {
			if n != hit-1 {
				r, _, _ := parseRecord(content[pos:], marker)
				want.apply(&r)
			}
		}
		if err := os.WriteFile(damaged, b, 0o600); err != nil {
			t.Fatal(err)
		}
		q, err := Open(Config{Path: damaged})
		if err != nil {
			t.Fatal(err)
		}
		if got := q.state.String(); got != want.String() {
			t.Fatalf("byte %d, record %d:\n%s\nwant\n%s", i, hit-1, got, want.String())
		}
		if r := q.Recovered(); (r.Skipped > 0) == (hit == len(places)) || (r.Cut > 0) != (hit == len(places)) {
			t.Fatalf("byte %d: %+v", i, r)
		}
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A payload that is an image of the file must not come to life.
func TestAPayloadIsNoRecord(t *testing.T) {
	name := file(t)
	q := open(t, Config{Path: name})
	enqueue(t, q, start, "a")
	image := readFile(t, name)
	other := open(t, Config{})
	if _, err := other.EnqueueAt(start, Entry{Key: "outer", Payload: image}, 0); err != nil {
		t.Fatal(err)
	}
	b := readFile(t, other.config.Path)
	b[headerSize] ^= 1 // damages the outer record's frame
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(other.config.Path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if q := open(t, other.config); len(q.state.waiting) != 0 {
		t.Errorf("recovered %v", waitingKeys(q))
	}
}

func FuzzRecovery(f *testing.F) {
	q := open(f, Config{})
	history(f, q)
	content := readFile(f, q.config.Path)
	f.Add(content[headerSize:], uint16(0), byte(0))
	f.Add(content[headerSize:], uint16(100), byte(1))
	f.Add([]byte{}, uint16(7), byte(255))
	marker, _ := parseHeader(content)
	f.Fuzz(func(t *testing.T, b []byte, at uint16, flip byte) {
		b = slices.Clone(b)
		if len(b) > 0 {
			b[int(at)%len(b)] ^= flip
		}
		var s state
		end, skipped := replay(b, marker, s.apply)
		if end > len(b) || skipped > end {
			t.Fatalf("end %d, skipped %d of %d", end, skipped, len(b))
		}
		s.check(t)
		// What was recovered, written afresh, is recovered the same.
		var log []byte
		for _, r := range s.records() {
			log = r.appendTo(log, marker)
		}
		var again state
		if end, skipped := replay(log, marker, again.apply); end != len(log) || skipped != 0 {
			t.Fatalf("the fresh log of %d bytes ends at %d, %d skipped", len(log), end, skipped)
		}
		if s.String() != again.String() {
			t.Fatalf("%s\nbecame\n%s", s.String(), again.String())
		}
	})
}

// check asserts what holds at every time.
func (s *state) check(t testing.TB) {
	t.Helper()
	var all, buried int64
	for _, e := range slices.Concat(s.waiting, s.dead) {
		all += e.cost()
		if s.keys[e.key] != e {
			t.Fatalf("item %q is not known by its key", e.key)
		}
	}
	for _, e := range s.dead {
		buried += e.cost()
	}
	if all != s.bytes || buried != s.buried || len(s.keys) != len(s.waiting)+len(s.dead) {
		t.Fatalf("bytes %d of %d, buried %d of %d, keys %d", s.bytes, all, s.buried, buried, len(s.keys))
	}
	if s.pause.wait < 0 || s.pause.wait > LargestWait {
		t.Fatalf("pause %v", s.pause)
	}
}

// childEnv names the file to a child process of these tests.
const childEnv = "COMPORTA_TEST_QUEUE_CHILD"

// TestMain lets the test binary be the process that is killed.
func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		os.Exit(child(path))
	}
	m.Run()
}

// child fills and empties a queue until it is killed, and prints what it was
// told: "in KEY" after Enqueue returned, "out KEY" before it reports a success.
func child(path string) int {
	q, err := Open(Config{Path: path, MaxItems: 1 << 20})
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	fmt.Println("open")
	prefix := fmt.Sprint(os.Getpid(), "-")
	for i := 0; ; i++ {
		key := fmt.Sprint(prefix, i)
		if _, err := q.EnqueueAt(start, Entry{Key: key, Payload: make([]byte, 1000)}, 0); err != nil {
			fmt.Println("error", err)
			return 1
		}
		fmt.Println("in", key)
		if i%3 == 0 {
			continue
		}
		item, _, err := q.NextAt(start)
		if err == nil {
			fmt.Println("out", item.Key)
			err = q.SettleAt(start, item.ID, Result{Fate: Done}, 0)
		}
		if err != nil {
			fmt.Println("error", err)
			return 1
		}
	}
}

// cases/client.md D15: SIGKILL at any instant loses nothing that was accepted.
func TestCase_Client_D15_Killed(t *testing.T) {
	name := file(t)
	in, out := map[string]bool{}, map[string]bool{}
	for range 8 {
		killOne(t, name, in, out)
		if t.Failed() {
			return
		}
		// The lock died with the process, and what it accepted is there.
		q := open(t, Config{Path: name, MaxItems: 1 << 20})
		held := map[string]bool{}
		for _, k := range waitingKeys(q) {
			held[k] = true
		}
		for k := range in {
			if !held[k] && !out[k] {
				t.Fatalf("%s was accepted and is lost", k)
			}
		}
		q.state.check(t)
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if len(in) < 100 || len(out) < 20 {
		t.Logf("only %d in and %d out before the kills", len(in), len(out))
	}
}

func killOne(t *testing.T, name string, in, out map[string]bool) {
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childEnv+"="+name)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	left := 20 + rand.IntN(150) // lines until the kill
	for lines := bufio.NewScanner(stdout); lines.Scan(); left-- {
		verb, key, _ := strings.Cut(lines.Text(), " ")
		switch verb {
		case "in":
			in[key] = true
		case "out":
			out[key] = true
		case "error":
			t.Error(key)
		}
		if left == 20 { // in the middle of whatever it does now
			if _, err := Open(Config{Path: name}); !errors.Is(err, ErrLocked) {
				t.Errorf("a second process got in: %v", err)
			}
		}
		if left == 0 {
			_ = cmd.Process.Kill()
		}
	}
	_ = cmd.Wait() // killed
}
