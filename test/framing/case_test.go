package framing

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

const whole = `# A comment.
case: A3
about: A sentence.
source: RFC 9112 7.1

send:
> POST /a HTTP/1.1\r\n
>*3 X: \"y\"\r\n
> \r\n
> \x00
refuse: 400 none
fault: body
serve:
> POST /a HTTP/1.1\r\n
> Host: a\r\n
> \r\n
> hello
without: Trailer Upgrade
reply:
> HTTP/1.1 413 No\r\n\r\n
answer: 413
then: any
link: close
`

func TestParse(t *testing.T) {
	got, err := Parse("name", whole)
	want := Case{
		Name: "name", ID: "A3", About: "A sentence.", Source: "RFC 9112 7.1",
		Send:   []byte("POST /a HTTP/1.1\r\nX: \"y\"\r\nX: \"y\"\r\nX: \"y\"\r\n\r\n\x00"),
		Refuse: []int{400, StatusNone}, InBody: true,
		Serve:   &Message{Line: "POST /a HTTP/1.1", Fields: []string{"Host: a"}, Body: "hello"},
		Without: []string{"Trailer", "Upgrade"}, Reply: []byte("HTTP/1.1 413 No\r\n\r\n"), Answer: []int{413},
		Then: ThenAny, Unlink: true,
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\ngot  %+v\nwant %+v", err, got, want)
	}
}

func TestParseProblems(t *testing.T) {
	const least = "case: A1\nabout: It.\nsend:\n> x\nrefuse: 400\n"
	if _, err := Parse("least", least); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"":                              "case is missing: the id\nabout is missing: a sentence\nsend is missing: the bytes\nrefuse or serve is missing",
		"> x\n" + least:                 "name.txt:1: bytes without a key",
		least + "nonsense\n":            `name.txt:6: "nonsense" is neither`,
		least + "case: A2\n":            "name.txt:6: case stands in line 1 already",
		least + "colour: red\n":         `"colour" is no key`,
		least + "then: perhaps\n":       `"perhaps" none of its values`,
		least + "fault: mine\n":         `"mine" none`,
		least + "link: open\n":          `"open" none`,
		least + "then:\n":               "a value is missing",
		least + "reply: HTTP/1.1\n":     "its bytes stand in the lines below",
		least + "reply:\n>x\n":          "write `> bytes`",
		least + "reply:\n>*0 x\n":       "write `> bytes`",
		least + "reply:\n>*100001 x\n":  "write `> bytes`",
		least + "reply:\n> \\q\n":       "not written as in a Go string",
		least + "reply:\n> \"\n":        "not written as in a Go string",
		least + "answer: 200\n":         "serve is missing",
		least + "without: Upgrade\n":    "serve is missing",
		least + "serve:\n> GET / x\n":   "no end of the head",
		"refuse: 40\n" + least[:31]:     `name.txt:1: "40" is no final status`,
		"refuse: 100 200\n" + least[:1]: `"100" is no final status`,
	} {
		if _, err := Parse("name", text); err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), "name.txt: ", ""), want) {
			t.Errorf("%q:\ngot  %v\nwant %s", text, err, want)
		}
	}
}

// The corpus reads, and has every case of the groups that it is for.
func TestCorpus(t *testing.T) {
	cases, err := Cases()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for i := range cases {
		found[cases[i].ID]++
	}
	for _, id := range IDs {
		if found[id] == 0 {
			t.Errorf("no case %s", id)
		}
		delete(found, id)
	}
	if len(found) > 0 || len(cases) < 200 {
		t.Errorf("%d cases; not in IDs: %v", len(cases), found)
	}
}

// The line of a served request is a request of its own: what a reader of the
// corpus believes to be sent is.
func TestCorpusIsWhatItSays(t *testing.T) {
	cases, err := Cases()
	if err != nil {
		t.Fatal(err)
	}
	for i := range cases {
		c := &cases[i]
		if slices.Contains(c.Refuse, 200) {
			t.Errorf("%s: 200 is no refusal", c.Name)
		}
		if c.Serve != nil && !strings.HasSuffix(c.Serve.Line, " HTTP/1.1") {
			t.Errorf("%s: the service is spoken to in HTTP/1.1, not %q", c.Name, c.Serve.Line)
		}
		if !strings.HasPrefix(c.Name, strings.ToLower(c.ID[:1])) {
			t.Errorf("%s is a case %s", c.Name, c.ID)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(whole)
	f.Add("case: A1\nsend:\n>*9 \\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse("name", text)
		if err == nil && (len(c.Send) == 0 || c.ID == "" || c.Refuse == nil && c.Serve == nil) {
			t.Errorf("an incomplete case: %+v", c)
		}
	})
}
