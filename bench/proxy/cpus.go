package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// processors are the two that a run uses: one for the proxies, another for the
// load and the service.
type processors struct{ proxy, load int }

// errOneProcessor is told where nothing can be kept apart.
var errOneProcessor = errors.New("two processors are needed: one for the proxy, one for the load and the service")

// choose takes the last two processors that this process may use: the first ones
// serve the system's interrupts more often than not.
func choose() (processors, error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return processors{}, err
	}
	for line := range strings.Lines(string(text)) {
		if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			all, err := cpuList(strings.TrimSpace(list))
			if err != nil {
				return processors{}, err
			}
			if len(all) < 2 {
				return processors{}, errOneProcessor
			}
			return processors{proxy: all[len(all)-1], load: all[len(all)-2]}, nil
		}
	}
	return processors{}, errors.New("/proc/self/status does not say which processors may be used")
}

// cpuList reads the kernel's notation, as in 0-2,7.
func cpuList(text string) ([]int, error) {
	var all []int
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err1 := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("the list of processors %q: %w", text, err)
		}
		for cpu := from; cpu <= to; cpu++ {
			all = append(all, cpu)
		}
	}
	return all, nil
}
