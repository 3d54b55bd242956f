package sim

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Set changes one value of a scenario by its name in the YAML form: `demand`,
// `service.slots`, `classes.web.obey`. The classes are copied before they change,
// so that other copies of s keep theirs.
func (s *Scenario) Set(key, value string) error {
	s.Classes = slices.Clone(s.Classes)
	v := reflect.ValueOf(s).Elem()
	for part := range strings.SplitSeq(key, ".") {
		next, ok := member(v, part)
		if !ok {
			return fmt.Errorf("sim: %s: there is no %q; the names are those of a scenario's file", key, part)
		}
		v = next
	}
	if err := assign(v, value); err != nil {
		return fmt.Errorf("sim: %s: %w", key, err)
	}
	return nil
}

// member finds a field by its name in YAML, or an element of a list by its name.
func member(v reflect.Value, name string) (reflect.Value, bool) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if tag, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ","); tag == name && tag != "" {
				return v.Field(i), true
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			if f := v.Index(i).FieldByName("Name"); f.IsValid() && f.String() == name {
				return v.Index(i), true
			}
		}
	default:
	}
	return v, false
}

func assign(v reflect.Value, text string) error {
	if u, ok := reflect.TypeAssert[encoding.TextUnmarshaler](v.Addr()); ok {
		return u.UnmarshalText([]byte(text)) //nolint:wrapcheck // Set names the key
	}
	if v.Type() == reflect.TypeFor[time.Duration]() {
		d, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("%q is no duration, such as 90s or 12m", text)
		}
		v.SetInt(int64(d))
		return nil
	}
	var err error
	switch v.Kind() {
	case reflect.Float64:
		var f float64
		if f, err = strconv.ParseFloat(text, 64); err == nil {
			v.SetFloat(f)
		}
	case reflect.Int:
		var n int64
		if n, err = strconv.ParseInt(text, 10, 64); err == nil {
			v.SetInt(n)
		}
	case reflect.Bool:
		var b bool
		if b, err = strconv.ParseBool(text); err == nil {
			v.SetBool(b)
		}
	case reflect.String:
		v.SetString(text)
	default:
		return errors.New("it is a group; name one of its values")
	}
	if err != nil {
		return fmt.Errorf("%q is no %s", text, v.Kind())
	}
	return nil
}
