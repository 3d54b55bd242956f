package identity

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/comporta/comporta"
)

// VersionState says how a request stands to the minimum version of its client.
type VersionState uint8

// The states.
const (
	VersionUnlimited VersionState = iota // the client's name has no minimum
	VersionFine                          // at or above its minimum
	VersionAbsent                        // no readable version; passes, and is to be counted
	VersionMissing                       // no readable version, and one is required
	VersionTooOld                        // below its minimum
)

// Refused reports whether the request is to be refused as client_too_old.
func (s VersionState) Refused() bool { return s >= VersionMissing }

// floor holds the minimum versions.
type floor struct {
	minimum  map[string]comporta.ClientVersion
	text     map[string]string // name/version, as refusals say it
	all      string            // every minimum, for those who send no version
	required bool
}

func newFloor(config map[string]string, required bool) (floor, error) {
	f := floor{
		minimum:  make(map[string]comporta.ClientVersion, len(config)),
		text:     make(map[string]string, len(config)),
		required: required,
	}
	var problems []error
	texts := make([]string, 0, len(config))
	for _, name := range slices.Sorted(maps.Keys(config)) {
		v, ok := comporta.ParseClientVersion(name + "/" + config[name])
		if !ok || v.Name != name { // spaces around the name
			problems = append(problems, fmt.Errorf(
				"identity: MinimumVersion[%q]: %q is no version; the name is made of letters, digits, dot, dash and underscore, the version is as 2.1.0", name, config[name]))
			continue
		}
		f.minimum[name], f.text[name] = v, name+"/"+strings.TrimSpace(config[name])
		texts = append(texts, f.text[name])
	}
	f.all = strings.Join(texts, ", ")
	return f, errors.Join(problems...)
}

// CheckVersion says whether r.Version, written by comporta.Signals, is recent
// enough. minimum is what the refusal names, `name/version`; where the version
// itself is missing, every configured minimum, separated by commas.
func (id *Identifier) CheckVersion(r *comporta.Request) (state VersionState, minimum string) {
	f := &id.floor
	switch {
	case r.Version.Name == "" && f.required:
		return VersionMissing, f.all
	case len(f.minimum) == 0:
		return VersionUnlimited, ""
	case r.Version.Name == "":
		return VersionAbsent, ""
	}
	least, limited := f.minimum[r.Version.Name]
	switch {
	case !limited:
		return VersionUnlimited, ""
	case r.Version.Compare(least) < 0:
		return VersionTooOld, f.text[r.Version.Name]
	}
	return VersionFine, ""
}
