package config_test

import (
	"errors"
	"fmt"

	"github.com/comporta/comporta/internal/config"
)

func ExampleLoad() {
	c, _, err := config.Load(config.Input{
		Env:   []string{"COMPORTA_ADMISSION_CAPACITY=64"},
		Flags: []config.Flag{{Name: "upstream", Path: "upstream.urls", Value: "http://127.0.0.1:3000"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Listen[0].Addr, c.Upstream.URLs[0], c.Admission.Capacity.Static, c.Drain.Soft)
	// Output: :8080 http://127.0.0.1:3000 64 8s
}

func ExampleProblems() {
	_, _, err := config.Load(config.Input{
		Env: []string{"COMPORTA_ADMISSION_RESERVE=30%", "COMPORTA_SLOTS_BSAE=2s"},
		// Nothing to protect is fine for a look at the configuration.
		WithoutUpstream: true,
	})
	problems, _ := errors.AsType[config.Problems](err)
	for _, p := range problems {
		fmt.Println(p)
	}
	// Output:
	// COMPORTA_ADMISSION_RESERVE: admission.reserve: 30% is not a fraction
	//       | COMPORTA_ADMISSION_RESERVE=30%
	//       |                            ^ write it as 0.3
	// COMPORTA_SLOTS_BSAE: sets no key
	//       | COMPORTA_SLOTS_BSAE=2s
	//       | ^ did you mean COMPORTA_SLOTS_BASE?
}
