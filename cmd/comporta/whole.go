package main

import (
	"strconv"
	"time"
)

// whole returns how many units d is. The admin API counts in whole ones: what does
// not fit is said, since a rest that is dropped silently turns 1ns into never.
func whole(d, unit time.Duration, name string) (n int64, problem string) {
	if d%unit != 0 {
		return 0, d.String() + " is not a number of whole " + name
	}
	return int64(d / unit), ""
}

// wholeText is whole for a duration that is yet to be read.
func wholeText(text string, unit time.Duration, name string) (n int64, problem string) {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, strconv.Quote(text) + " is no duration, such as 2s or 10m"
	}
	return whole(d, unit, name)
}
