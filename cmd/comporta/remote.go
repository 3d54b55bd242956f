package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/user"
	"regexp"
	"slices"
	"strings"

	"github.com/comporta/comporta/internal/admin"
)

// remote is what the commands that talk to a running gateway have in common.
type remote struct {
	*flags

	address, tokenFile *string
	asJSON             *bool
}

func newRemote(f *flags) *remote {
	return &remote{
		f,
		f.String("admin", "http://127.0.0.1:9900", "`URL` of the gateway's admin listener"),
		f.String("token-file", "", "`FILE` that holds the admin token"),
		f.Bool("json", false, "print one JSON document"),
	}
}

// call asks the gateway. done means that the command ends with the code: the call
// failed, or the answer was printed as JSON.
func (r *remote) call(ctx context.Context, method, path string, in, out any) (code int, done bool) {
	raw, code, done := r.ask(ctx, method, path, in, out)
	if done || !*r.asJSON {
		return code, done
	}
	if len(raw) == 0 {
		raw = []byte("{}")
	}
	return printJSON(r.flags, json.RawMessage(raw)), true
}

// ask is call for an answer that is not yet what the command tells.
func (r *remote) ask(ctx context.Context, method, path string, in, out any) (raw []byte, code int, done bool) {
	caller, err := admin.NewCaller(*r.address, *r.tokenFile)
	if err != nil {
		return nil, r.misused("%v", err), true
	}
	caller.Operator = operator()
	raw, err = caller.Call(ctx, method, path, in, out)
	if err != nil {
		return nil, r.failed(err), true
	}
	return raw, 0, false
}

// again is a command line of this command that says what, with the flags that were
// given but those of without.
func (r *remote) again(what string, without ...string) string {
	line := "comporta " + r.Name() + " " + what
	r.Visit(func(f *flag.Flag) {
		b, isBool := f.Value.(interface{ IsBoolFlag() bool })
		switch {
		case slices.Contains(without, f.Name):
		case isBool && b.IsBoolFlag() && f.Value.String() == "true":
			line += " -" + f.Name
		case isBool && b.IsBoolFlag():
			line += " -" + f.Name + "=" + f.Value.String()
		default:
			line += " -" + f.Name + " " + shellWord(f.Value.String())
		}
	})
	return line
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9%+,./:@_-]+$`)

// shellWord spells text as one word of a shell.
func shellWord(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// operator is the user who runs this command.
func operator() admin.Operator {
	o := admin.Operator{User: fmt.Sprint("uid ", os.Getuid()), Sudo: os.Getenv("SUDO_USER")}
	if u, err := user.Current(); err == nil { // else it has no name, as in many containers
		o.User = u.Username
	}
	return o
}

// segment spells what somebody named as one segment of a path. Dots alone would be
// taken for a way up.
func segment(name string) string {
	if strings.Trim(name, ".") == "" {
		return strings.ReplaceAll(name, ".", "%2E")
	}
	return url.PathEscape(name)
}
