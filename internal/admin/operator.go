package admin

import (
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Operator is whose a program says it is. That is a claim and no proof: whoever has
// the token, or is on the gateway's machine, may say anything. The audit writes it
// down as one. The zero value says nothing.
type Operator struct {
	User string // of the operating system
	Sudo string // who became User by sudo
}

// The fields in which a program says so.
const (
	HeaderUser     = "Comporta-User"
	HeaderSudoUser = "Comporta-Sudo-User"
)

// maxUser bounds the name of a user, in bytes.
const maxUser = 64

// write says who asks.
func (o Operator) write(h http.Header) {
	for name, value := range map[string]string{HeaderUser: o.User, HeaderSudoUser: o.Sudo} {
		if value = tidy(value); value != "" {
			h.Set(name, value)
		}
	}
}

// operatorOf reads what write wrote, or anybody else.
func operatorOf(h http.Header) Operator {
	return Operator{User: tidy(h.Get(HeaderUser)), Sudo: tidy(h.Get(HeaderSudoUser))}
}

// attributes are those of the audit.
func (o Operator) attributes() (args []any) {
	if o.User != "" {
		args = append(args, "claimed_user", o.User)
	}
	if o.Sudo != "" {
		args = append(args, "claimed_sudo_user", o.Sudo)
	}
	return args
}

// tidy makes a name fit for a field and for a log: of at most maxUser bytes, and with
// a question mark for what is not printable.
func tidy(name string) string {
	name = strings.TrimSpace(name)
	for i, c := range name {
		if i+utf8.RuneLen(c) > maxUser {
			name = name[:i]
			break
		}
	}
	return strings.Map(func(c rune) rune {
		if c == utf8.RuneError || !unicode.IsPrint(c) {
			return '?'
		}
		return c
	}, strings.TrimSpace(name))
}
