package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/comporta/comporta/internal/admin"
	"github.com/comporta/comporta/store"
)

// keyFlags are the flags of the subcommand keys.
type keyFlags struct {
	state, client, route, cursor string
	limit                        int
	body, yes                    bool
}

func newKeyFlags(f *flags) *keyFlags {
	var k keyFlags
	f.StringVar(&k.state, "state", "", "list those that are `STATE`: running, lapsed or finished")
	f.StringVar(&k.client, "client", "", "of `CLIENT`: its name or hash, as the list shows it")
	f.StringVar(&k.route, "route", "", "of the route of this `NAME`")
	f.StringVar(&k.cursor, "cursor", "", "go on where the list before ended")
	f.IntVar(&k.limit, "limit", store.DefaultPage, "how many to list")
	f.BoolVar(&k.body, "body", false, "show the stored body too, which is audited")
	f.BoolVar(&k.yes, "yes", false, "release, at the risk that is told without this flag")
	return &k
}

func runKeys(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	f := newFlags("keys", stdout, stderr)
	r, k := newRemote(f), newKeyFlags(f)
	rest, code, done := f.parse(args)
	if done {
		return code
	}
	if len(rest) == 0 {
		rest = []string{"list"}
	}
	switch verb := rest[0]; {
	case verb == "list" && len(rest) == 1:
		return listKeys(ctx, r, k, "")
	case verb == "list" && len(rest) == 2 && rest[1] != "":
		return listKeys(ctx, r, k, rest[1])
	case verb == "show" && len(rest) == 2 && rest[1] != "":
		return showKey(ctx, r, k, rest[1])
	case verb == "release" && len(rest) == 2 && rest[1] != "":
		return releaseKey(ctx, r, k, rest[1])
	}
	return f.misused("list [KEY], show KEY|NAME, or release KEY|NAME [-yes]; not %q", strings.Join(rest, " "))
}

// query is what the flags and a key select.
func (k *keyFlags) query(key string) string {
	v := url.Values{}
	for name, value := range map[string]string{"state": k.state, "client": k.client, "route": k.route, "cursor": k.cursor, "key": key} {
		if value != "" {
			v.Set(name, value)
		}
	}
	v.Set("limit", strconv.Itoa(k.limit))
	return "/api/v1/keys?" + v.Encode()
}

// filtered reports whether the flags select some of the keys.
func (k *keyFlags) filtered() bool {
	return k.state != "" || k.client != "" || k.route != "" || k.cursor != ""
}

func listKeys(ctx context.Context, r *remote, k *keyFlags, key string) int {
	var page admin.Keys
	code, done := r.call(ctx, http.MethodGet, k.query(key), nil, &page)
	if done {
		return code
	}
	if page.Note != "" {
		say(r.stderr, "note: %s\n", page.Note)
	}
	if len(page.Keys) == 0 && page.Next == "" {
		if key == "" && !k.filtered() {
			say(r.stdout, "no key is kept\n")
		} else {
			say(r.stdout, "no key matches\n")
		}
		return code
	}
	for i := range page.Keys {
		printKeyLine(r.stdout, &page.Keys[i])
	}
	if page.Next != "" {
		say(r.stdout, "there are more: -cursor %s\n", page.Next)
	}
	return code
}

func printKeyLine(w io.Writer, k *admin.Key) {
	what := k.State
	switch {
	case k.Status != 0:
		what = fmt.Sprintf("answered %d", k.Status)
	case k.LeaseLeftMs > 0:
		what = fmt.Sprintf("running, lease %v", leaseOf(k))
	}
	say(w, "%s  %-24s %-20s %-7s %-12s client %s  %s\n", k.Name[:16], k.Key, what, k.Method, k.Route, k.Client, k.Created.Local().Format(time.DateTime))
}

func leaseOf(k *admin.Key) time.Duration {
	return (time.Duration(k.LeaseLeftMs) * time.Millisecond).Round(100 * time.Millisecond)
}

// find returns the name of the one record that is meant: by its name, the beginning
// of it, or the key that a client sent.
func (k *keyFlags) find(ctx context.Context, r *remote, which string) (name string, code int, done bool) {
	if _, err := store.ParseName(which); err == nil {
		return which, 0, false
	}
	byName := len(which) >= 8 && !strings.ContainsFunc(which, func(c rune) bool { return !strings.ContainsRune("0123456789abcdef", c) })
	for _, key := range []string{which, ""} {
		if key == "" && !byName {
			break
		}
		var page admin.Keys
		if _, code, done = r.ask(ctx, http.MethodGet, k.query(key), nil, &page); done {
			return "", code, true
		}
		page.Keys = slices.DeleteFunc(page.Keys, func(found admin.Key) bool { return key == "" && !strings.HasPrefix(found.Name, which) })
		switch len(page.Keys) {
		case 0:
		case 1:
			return page.Keys[0].Name, 0, false
		default:
			for i := range page.Keys {
				printKeyLine(r.stderr, &page.Keys[i])
			}
			return "", r.failed(fmt.Errorf("%d records are meant by %q: %s", len(page.Keys), which, k.apart(page.Keys))), true
		}
	}
	return "", r.failed(fmt.Errorf("no record is meant by %q: its time may be over; comporta keys list shows what is kept", which)), true
}

// apart says what tells records apart that are meant alike.
func (k *keyFlags) apart(keys []admin.Key) string {
	differ := func(of func(*admin.Key) string) bool {
		return slices.ContainsFunc(keys, func(other admin.Key) bool { return of(&other) != of(&keys[0]) })
	}
	var more []string
	if k.client == "" && differ(func(r *admin.Key) string { return r.Client }) {
		more = append(more, "-client")
	}
	if k.route == "" && differ(func(r *admin.Key) string { return r.Route }) {
		more = append(more, "-route")
	}
	if k.state == "" && differ(func(r *admin.Key) string { return r.State }) {
		more = append(more, "-state")
	}
	const byName = "name one by the hash that stands before it"
	if len(more) == 0 {
		return byName
	}
	return byName + ", or add " + strings.Join(more, " or ")
}

func showKey(ctx context.Context, r *remote, k *keyFlags, which string) int {
	name, code, done := k.find(ctx, r, which)
	if done {
		return code
	}
	path := "/api/v1/keys/" + name
	if k.body {
		path += "?body=true"
	}
	var d admin.KeyDetail
	if code, done = r.call(ctx, http.MethodGet, path, nil, &d); !done {
		printKey(r.stdout, &d, k.body)
	}
	return code
}

func printKey(w io.Writer, d *admin.KeyDetail, body bool) {
	k := &d.Key
	say(w, "%s\n", k.Name)
	say(w, "  key      %s\n", k.Key)
	say(w, "  request  %s on route %s by client %s\n", k.Method, k.Route, k.Client)
	say(w, "  claimed  %s\n", k.Created.Local().Format(time.DateTime))
	switch k.State {
	case "finished":
		say(w, "  answered %d at %s, kept until %s\n", k.Status, k.Finished.Local().Format(time.DateTime), k.Expires.Local().Format(time.DateTime))
	case "running":
		say(w, "  running  its lease ends in %v unless it is renewed\n", leaseOf(k))
	default:
		say(w, "  lapsed   nobody knows what became of it; forgotten at %s\n", k.Expires.Local().Format(time.DateTime))
	}
	for _, name := range slices.Sorted(maps.Keys(d.Header)) {
		for _, v := range d.Header[name] {
			say(w, "  header   %s: %s\n", name, v)
		}
	}
	switch {
	case k.BodyOmitted:
		say(w, "  body     was not kept\n")
	case body:
		say(w, "  body     %q\n", d.Body)
	case k.State == "finished":
		say(w, "  body     %d bytes; -body shows them\n", k.BodySize)
	}
	say(w, "  to release it: %s\n", d.Risk)
}

func releaseKey(ctx context.Context, r *remote, k *keyFlags, which string) int {
	name, code, done := k.find(ctx, r, which)
	if done {
		return code
	}
	var d admin.KeyDetail
	if _, code, done = r.ask(ctx, http.MethodGet, "/api/v1/keys/"+name, nil, &d); done {
		return code
	}
	if !k.yes {
		return r.failed(fmt.Errorf("%s\nnothing was released; %s does it", d.Risk, r.again("release "+shellWord(which)+" -yes", "yes")))
	}
	var released admin.Released
	path := "/api/v1/keys/" + name + "?" + url.Values{"fence": {d.Key.Fence}, "state": {d.Key.State}}.Encode()
	if code, done = r.call(ctx, http.MethodDelete, path, nil, &released); !done {
		say(r.stdout, "%s is released: %s\n", released.Key.Key, released.Risk)
	}
	return code
}
