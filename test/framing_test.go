//go:build integration

package test

import (
	"strings"
	"testing"

	"github.com/comporta/comporta/test/framing"
)

// The corpus of test/framing against the gateway: group A of cases/proxy.md, and G50.

func TestCase_Proxy_A1_LengthAndChunked(t *testing.T)       { frame(t, "A1") }
func TestCase_Proxy_A2_Lengths(t *testing.T)                { frame(t, "A2") }
func TestCase_Proxy_A3_CodingsAndChunks(t *testing.T)       { frame(t, "A3") }
func TestCase_Proxy_A4_CodingAndTab(t *testing.T)           { frame(t, "A4") }
func TestCase_Proxy_A6_FoldedFields(t *testing.T)           { frame(t, "A6") }
func TestCase_Proxy_A7_ControlCharacters(t *testing.T)      { frame(t, "A7") }
func TestCase_Proxy_A8_BareLineFeeds(t *testing.T)          { frame(t, "A8") }
func TestCase_Proxy_A9_Hosts(t *testing.T)                  { frame(t, "A9") }
func TestCase_Proxy_A11_FirstLines(t *testing.T)            { frame(t, "A11") }
func TestCase_Proxy_A12_OldVersions(t *testing.T)           { frame(t, "A12") }
func TestCase_Proxy_A13_Upgrades(t *testing.T)              { frame(t, "A13") }
func TestCase_Proxy_A14_Connect(t *testing.T)               { frame(t, "A14") }
func TestCase_Proxy_A16_EarlyAndFaultyAnswers(t *testing.T) { frame(t, "A16") }
func TestCase_Proxy_G50_Paths(t *testing.T)                 { frame(t, "G50") }

// frame plays the corpus's cases of one id, whole and byte by byte. Each has a
// service and a gateway of its own.
func frame(t *testing.T, id string) {
	t.Helper()
	cases, err := framing.Cases()
	if err != nil {
		t.Fatal(err)
	}
	for _, slow := range []bool{false, true} {
		t.Run(map[bool]string{false: "whole", true: "byte by byte"}[slow], func(t *testing.T) {
			service, err := framing.Listen(t.Context(), "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			g := serve(t, "-upstream", "http://"+service.Addr())
			trial := framing.Trial{Addr: strings.TrimPrefix(g.url, "http://"), Service: service, Slow: slow}
			t.Cleanup(func() {
				if err := service.Close(); err != nil {
					t.Error(err)
				}
			})
			for i := range cases {
				if cases[i].ID == id {
					play(t, &trial, &cases[i])
				}
			}
		})
	}
}

// play fails the test unless a case ends as it should.
func play(t *testing.T, trial *framing.Trial, c *framing.Case) {
	t.Helper()
	t.Run(c.Name, func(t *testing.T) {
		r, err := trial.Play(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Problems) > 0 {
			t.Errorf("%s\n%s\nit was: %s\n%s", c.About, c.Source, r.Fate(), strings.Join(r.Problems, "\n"))
		}
	})
}
