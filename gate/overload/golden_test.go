package overload

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/comporta/comporta"
)

var update = flag.Bool("update", false, "rewrite the golden files and the generated tables")

// allForms are the forms that every reason is written in: dialect, then protocol.
const allForms = "en GET, en HEAD, en grpc, pt-BR GET, pt-BR HEAD, pt-BR grpc"

// golden is one refusal, as testdata/*.txt describes it: "name: value" lines,
// then one section for each form with the answer as it is on the wire.
type golden struct {
	ref     Refusal
	config  Config
	header  []string // further lines of the request
	forms   []string
	input   string
	answers string
}

// TestGolden compares what is on the wire, byte for byte. A file in testdata is a
// case; -update writes its answers.
func TestGolden(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			checkGolden(t, file)
		})
	}
}

// TestEveryReasonIsGolden sees to it that no reason lacks its file, in all forms.
// It is not parallel, so that -update makes the files before TestGolden reads them.
//
//nolint:paralleltest // see above
func TestEveryReasonIsGolden(t *testing.T) {
	for reason := comporta.ReasonNone + 1; reason < comporta.NumReasons; reason++ {
		file := filepath.Join("testdata", "reason_"+reason.String()+".txt")
		if _, err := os.Stat(file); os.IsNotExist(err) && *update {
			input := "reason: " + reason.String() + "\nattempts: 3\nid: 5f0c1d\n"
			if reason.Info().Retryable {
				input += "wait: 36.412s\n"
			}
			if reason.Info().Slotted {
				input += "ticket: v1.c2xvdA\n"
			}
			if err := os.WriteFile(file, []byte(input+"forms: "+allForms+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if g := readGolden(t, file); g.ref.Reason != reason || len(g.forms) != 6 {
			t.Errorf("%s: reason %v in %d forms, want %v in 6", file, g.ref.Reason, len(g.forms), reason)
		}
	}
}

func checkGolden(t *testing.T, file string) {
	t.Helper()
	g := readGolden(t, file)
	var got strings.Builder
	for _, form := range g.forms {
		fmt.Fprintf(&got, "---- %s\n%s\n", form, g.exchange(t, form))
	}
	if *update {
		if err := os.WriteFile(file, []byte(g.input+got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	gots, wants := strings.Split(got.String(), "\n"), strings.Split(g.answers, "\n")
	for i, line := range gots {
		if i >= len(wants) || line != wants[i] {
			t.Fatalf("%s, answer line %d:\n got %q\nwant %q", file, i+1, line, append(wants, "nothing")[min(i, len(wants))])
		}
	}
	if len(gots) != len(wants) {
		t.Errorf("%s: the answer ends after %d lines, want %d", file, len(gots), len(wants))
	}
}

func readGolden(t *testing.T, file string) *golden {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	g := &golden{input: string(text), forms: []string{"en GET"}}
	if i := strings.Index(g.input, "---- "); i >= 0 {
		g.input, g.answers = g.input[:i], g.input[i:]
	}
	for line := range strings.Lines(g.input) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if err := g.read(name, value); err != nil {
			t.Fatalf("%s: %s: %v", file, name, err)
		}
	}
	return g
}

//nolint:cyclop // one line a field
func (g *golden) read(name, value string) (err error) {
	ref := &g.ref
	switch name {
	case "":
	case "reason":
		ref.Reason, _ = comporta.ReasonByCode(value)
	case "status":
		ref.Status, err = strconv.Atoi(value)
	case "stop":
		ref.Stop, err = strconv.ParseBool(value)
	case "wait":
		ref.Wait, err = time.ParseDuration(value)
	case "ticket":
		ref.Ticket = []byte(value)
	case "attempts":
		ref.Attempts, err = strconv.Atoi(value)
	case "id":
		ref.RequestID = value
	case "version":
		ref.MinimumVersion = value
	case "outcome":
		ref.Outcome = value
	case "detail":
		ref.Detail = value
	case "why":
		ref.Why, err = whyOf(value)
	case "violated":
		ref.Violated = strings.Split(value, ", ")
	case "code":
		ref.Code = value
	case "from service":
		ref.FromService, err = strconv.ParseBool(value)
	case "answer":
		kind, body, _ := strings.Cut(value, " ")
		ref.Answer = &Answer{ContentType: kind, Body: []byte(body)}
	case "origins":
		g.config.CORSOrigins = strings.Split(value, ", ")
	case "base":
		g.config.TypeBase = value
	case "policy":
		g.config.Policy = func() string { return value }
	case "header":
		g.header = append(g.header, value)
	case "forms":
		g.forms = strings.Split(value, ", ")
	default:
		err = fmt.Errorf("unknown field")
	}
	return err
}

// whyOf finds a detail by the beginning of its sentence.
func whyOf(text string) (comporta.Detail, error) {
	for d := comporta.DetailNone + 1; d < comporta.NumDetails; d++ {
		if strings.HasPrefix(d.String(), text) {
			return d, nil
		}
	}
	return 0, fmt.Errorf("no detail begins with %q", text)
}

var dateLine = regexp.MustCompile(`(?m)^Date: .*\r\n`)

// exchange sends one request over a real connection and returns the answer's
// bytes, with plain line ends and without the one line that moves.
func (g *golden) exchange(t *testing.T, form string) string {
	t.Helper()
	dialect, protocol, _ := strings.Cut(form, " ")
	config := g.config
	config.Dialect = dialect
	wr, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		wr.Write(w, r, &g.ref)
	}))
	defer server.Close()
	lines := append([]string{"Host: example.test"}, g.header...)
	method := protocol
	if protocol == "grpc" {
		method, lines = "POST", append(lines, "Content-Type: application/grpc+proto", "Content-Length: 0")
	}
	request := method + " /orders HTTP/1.1\r\n" + strings.Join(lines, "\r\n") + "\r\n\r\n"
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	var answer bytes.Buffer
	resp, err := http.ReadResponse(bufio.NewReader(io.TeeReader(conn, &answer)), &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	text := dateLine.ReplaceAll(answer.Bytes(), nil)
	return strings.TrimRight(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n")
}
