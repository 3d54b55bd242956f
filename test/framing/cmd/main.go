// Command cmd plays the framing corpus against any proxy by its address.
//
//	go run ./test/framing/cmd -addr 127.0.0.1:8080
//	go run ./test/framing/cmd -addr 127.0.0.1:8080 -service 127.0.0.1:9000
//
// With -service it listens there and records what arrives: set the proxy up to
// forward to it. Without, only the answers are judged. It prints a table and exits
// with 1 if a case went wrong, with 2 if the proxy could not be judged at all.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"time"

	"github.com/comporta/comporta/test/framing"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

func run(ctx context.Context, args []string, out, complaints io.Writer) int {
	flags := flag.NewFlagSet("framing", flag.ContinueOnError)
	flags.SetOutput(complaints)
	addr := flags.String("addr", "", "`address` of the proxy")
	behind := flags.String("service", "", "`address` to which the proxy forwards; listen there and judge what arrives")
	only := flags.String("only", "", "play the cases whose name matches this `regexp`")
	slow := flags.Bool("slow", false, "send byte by byte")
	timeout := flags.Duration("timeout", 5*time.Second, "`time` for an answer, and for a close")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	names, err := regexp.Compile(*only)
	if *addr == "" {
		err = errors.New("-addr is missing: name the proxy, as 127.0.0.1:8080")
	}
	trial := framing.Trial{Addr: *addr, Slow: *slow, Timeout: *timeout}
	if err == nil && *behind != "" {
		trial.Service, err = framing.Listen(ctx, *behind)
	}
	if err != nil {
		fmt.Fprintln(complaints, "framing:", err)
		return 2
	}
	wrong, all, err := play(ctx, &trial, names, out)
	if trial.Service != nil {
		err = errors.Join(err, trial.Service.Close())
	}
	if err != nil {
		fmt.Fprintln(complaints, "framing:", err)
		return 2
	}
	fmt.Fprintf(out, "%d of %d as they should be\n", all-wrong, all)
	return min(wrong, 1)
}

// play prints a line for each case, and one for each problem.
func play(ctx context.Context, t *framing.Trial, names *regexp.Regexp, out io.Writer) (wrong, all int, err error) {
	cases, err := framing.Cases()
	if err != nil {
		return 0, 0, err
	}
	for i := range cases {
		c := &cases[i]
		if !names.MatchString(c.Name) {
			continue
		}
		r, err := t.Play(ctx, c)
		if err != nil {
			return wrong, all, err
		}
		all++
		verdict := "ok"
		if len(r.Problems) > 0 {
			verdict = "WRONG"
			wrong++
		}
		fmt.Fprintf(out, "%-5s %-4s %-40s %s\n", verdict, c.ID, c.Name, r.Fate())
		for _, p := range r.Problems {
			fmt.Fprintf(out, "%12s%s\n", "", strings.ReplaceAll(p, "\n", " "))
		}
	}
	return wrong, all, nil
}
