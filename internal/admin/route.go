package admin

import (
	"fmt"
	"strings"
)

// maxNamed bounds how many routes an answer names.
const maxNamed = 20

// noRoute says that no route of the current configuration has a name, and which
// names there are.
func (a *api) noRoute(name string) string {
	names := a.Gate().RouteNames()
	more := ""
	if n := len(names) - maxNamed; n > 0 {
		names, more = names[:maxNamed], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("there is no route %q: the configuration has %s%s; other is what matches none", name, strings.Join(names, ", "), more)
}
