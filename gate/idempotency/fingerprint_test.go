package idempotency

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/comporta/comporta"

	"pgregory.net/rapid"
)

// sum is the fingerprint of a body that passes in pieces, of which the service reads
// read bytes.
func sum(base Fingerprint, body []byte, read, piece int) Fingerprint {
	s := NewSum()
	for at := 0; at < read; {
		n := min(piece, read-at)
		s.Read(body[at:at+n], nil)
		at += n
	}
	if read == len(body) {
		s.Read(nil, io.EOF)
	}
	return s.Fingerprint(&base)
}

func recorded(p Fingerprint) []byte { return p.AppendTo(nil) }

// Whichever way two bodies are seen, they are alike exactly when the part that was
// read the first time is the same.
func TestFingerprintsTellBodiesApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		some := rapid.SliceOfN(rapid.SampledFrom([]byte("ab")), 0, 8)
		first, second := some.Draw(t, "first"), some.Draw(t, "second")
		piece := rapid.IntRange(1, 5).Draw(t, "piece")
		read := rapid.IntRange(0, len(first)).Draw(t, "read")
		base := NewFingerprint("/a", "q")
		rec := recorded(sum(base, first, read, piece))
		same := bytes.Equal(first, second)
		if read < len(first) {
			same = len(second) >= read && bytes.Equal(first[:read], second[:read])
		}

		c := NewCompare(rec)
		if err := Drain(c, bytes.NewReader(second)); err != nil {
			t.Fatal(err)
		}
		if c.Same() != same {
			t.Fatalf("compared: %v, want %v", c.Same(), same)
		}
		whole := base.WithBody(second)
		switch l := whole.like(rec); {
		case l == alike && !same, l == different && same:
			t.Fatalf("read ahead: %v, want %v", l, same)
		case l == undecided && read == len(first):
			t.Fatal("two whole bodies are undecided")
		}
		if l := base.like(rec); l != undecided {
			t.Fatalf("without a body: %v", l)
		}
	})
}

// A body that goes on after its answer has begun is told apart by what came before, and
// one that ended meanwhile as well: its end may have waited for the answer.
func TestFingerprintOfAnAnsweredBody(t *testing.T) {
	base := NewFingerprint("/a", "")
	for _, tc := range []struct {
		name         string
		before       string
		ended        bool // before the answer
		after        string
		conversation bool
		same, other  string
	}{
		{"whole", "ab", true, "", false, "ab", "abc"},
		{"ended later", "ab", false, "", false, "abc", "ac"},
		{"a conversation", "ab", false, "c", true, "abx", "ac"},
		{"the service speaks first", "", false, "ab", true, "xy", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := NewSum()
			s.Read([]byte(tc.before), nil)
			if tc.ended {
				s.Read(nil, io.EOF)
			}
			s.Answered()
			s.Read([]byte(tc.after), nil)
			s.Answered() // the first counts
			if s.Conversation() != tc.conversation {
				t.Errorf("a conversation: %v", s.Conversation())
			}
			rec := recorded(s.Fingerprint(&base))
			for body, same := range map[string]bool{tc.same: true, tc.other: tc.other == ""} {
				c := NewCompare(rec)
				if err := Drain(c, strings.NewReader(body)); err != nil || c.Same() != same {
					t.Errorf("%q: %v, %v", body, c.Same(), err)
				}
			}
			c := NewCompare(rec)
			_, _ = c.Write([]byte(tc.before))
			if c.Enough() == tc.ended {
				t.Errorf("what came before is enough: %v", c.Enough())
			}
		})
	}
}

func TestFingerprintsTellTargetsApart(t *testing.T) {
	a := NewFingerprint("/a", "b")
	rec := recorded(a.WithBody([]byte("x")))
	for _, other := range []Fingerprint{NewFingerprint("/a", ""), NewFingerprint("/ab", ""), NewFingerprint("", "/ab"), NewFingerprint("/a", "b=")} {
		if l, d := other.like(rec), other.difference(rec); l != different || d != comporta.OtherTarget {
			t.Errorf("%v %v", l, d)
		}
	}
	if same := a.WithBody([]byte("x")); same.like(rec) != alike {
		l := same.like(rec)
		t.Errorf("%v", l)
	}
	if l := a.like(nil); l != alike {
		t.Errorf("nothing was recorded to differ from: %v", l)
	}
	if l, d := a.like(rec[1:]), a.difference(rec[1:]); l != different || d != comporta.DetailNone {
		t.Errorf("what cannot be read: %v %v", l, d)
	}
	if other := a.WithBody([]byte("y")); other.like(rec) != different || other.difference(rec) != comporta.OtherBody {
		t.Errorf("another body: %v", other.difference(rec))
	}
	if l := a.like(recorded(a)); l != alike {
		t.Errorf("the body was never known: %v", l)
	}
}

func TestDrainTellsWhoseFaultItIs(t *testing.T) {
	broke := errors.New("broke")
	c := NewCompare(recorded(NewFingerprint("/", "").WithBody([]byte("xyz"))))
	if err := Drain(c, io.MultiReader(bytes.NewReader([]byte("x")), &failing{broke})); !errors.Is(err, broke) {
		t.Errorf("%v", err)
	}
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }

func FuzzFingerprint(f *testing.F) {
	f.Add(recorded(NewFingerprint("/a", "b").WithBody([]byte("x"))), []byte("x"))
	f.Add([]byte{}, []byte{})
	f.Fuzz(func(t *testing.T, rec, body []byte) {
		p, ok := parseFingerprint(rec)
		if ok && !bytes.Equal(p.AppendTo(nil)[2:], rec[2:]) {
			t.Errorf("%x came back as %x", rec, p.AppendTo(nil))
		}
		c := NewCompare(rec)
		if err := Drain(c, bytes.NewReader(body)); err != nil {
			t.Fatal(err)
		}
		_ = c.Same()
		q := NewFingerprint("/a", "b").WithBody(body)
		_ = q.like(rec)
	})
}
