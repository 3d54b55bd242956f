// Package report shows what a comparison of defences found: as text for a
// terminal, as SVG and HTML for people, as CSV for other programs.
//
// # Basics
//
// Everything is written from the summaries that sim.Compare returns, and contains
// no clock and no path, so that the same comparison gives the same bytes. The HTML
// is one file that loads nothing, with its charts inline, and prints in black and
// white.
//
// # Caveats
//
// Curves are those of the typical run (the median of the recovery), not means: a
// mean of waves that come at different times shows waves that nobody saw.
package report
