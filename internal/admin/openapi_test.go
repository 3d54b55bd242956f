package admin

import (
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/comporta/comporta/gate"
)

type document struct {
	Paths      map[string]map[string]any `yaml:"paths"`
	Components struct {
		Responses map[string]any    `yaml:"responses"`
		Schemas   map[string]schema `yaml:"schemas"`
	} `yaml:"components"`
}

type schema struct {
	Required             []string       `yaml:"required"`
	Properties           map[string]any `yaml:"properties"`
	AdditionalProperties *bool          `yaml:"additionalProperties"`
}

func openAPI(t *testing.T) (d document, text string) {
	t.Helper()
	data, err := os.ReadFile("../../docs/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	return d, string(data)
}

// Every route is described, and nothing else is.
func TestOpenAPIHasEveryRoute(t *testing.T) {
	d, _ := openAPI(t)
	var described, registered []string
	for path, methods := range d.Paths {
		for method := range methods {
			described = append(described, strings.ToUpper(method)+" "+path)
		}
	}
	for pattern := range (&api{Config{Metrics: metrics{}}}).routes() {
		registered = append(registered, strings.TrimSuffix(pattern, "{$}"))
	}
	for _, p := range probes {
		registered = append(registered, "GET "+p)
	}
	slices.Sort(described)
	slices.Sort(registered)
	if !slices.Equal(described, registered) {
		t.Errorf("described %q\nregistered %q", described, registered)
	}
}

// Every body is described as it is encoded, field by field.
func TestOpenAPIHasEveryField(t *testing.T) {
	d, text := openAPI(t)
	bodies := map[string]any{
		"Answer": Answer{}, "Failure": Failure{}, "Status": Status{}, "Client": Client{}, "Who": Who{}, "Explanation": gate.Explanation{},
		"ShedRequest": ShedRequest{}, "Lever": gate.Lever{}, "Levers": Levers{}, "PolicyRequest": PolicyRequest{}, "PolicyStatus": PolicyStatus{},
		"LevelRequest": LevelRequest{}, "LevelStatus": LevelStatus{},
		"Key": Key{}, "Keys": Keys{}, "KeyDetail": KeyDetail{}, "Released": Released{},
		"Upstream": Upstream{}, "Upstreams": Upstreams{},
	}
	for name, body := range bodies {
		s, ok := d.Components.Schemas[name]
		if !ok {
			t.Errorf("%s is not described", name)
			continue
		}
		var fields, always []string
		for f := range reflect.TypeOf(body).Fields() {
			key, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			fields = append(fields, key)
			if options == "" {
				always = append(always, key)
			}
		}
		if got := slices.Sorted(maps.Keys(s.Properties)); !slices.Equal(got, slices.Sorted(slices.Values(fields))) {
			t.Errorf("%s: described %q, encoded %q", name, got, fields)
		}
		if got := slices.Sorted(slices.Values(s.Required)); !slices.Equal(got, slices.Sorted(slices.Values(always))) {
			t.Errorf("%s: required %q, always encoded %q", name, got, always)
		}
		if request := strings.HasSuffix(name, "Request"); request != (s.AdditionalProperties != nil && !*s.AdditionalProperties) {
			t.Errorf("%s: requests refuse unknown fields, and only they", name)
		}
	}
	for name := range d.Components.Schemas {
		if _, ok := bodies[name]; !ok {
			t.Errorf("%s is described and belongs to nothing", name)
		}
		if !strings.Contains(text, `"#/components/schemas/`+name+`"`) {
			t.Errorf("nothing refers to %s", name)
		}
	}
	for _, part := range strings.Split(text, `$ref: "#/components/`)[1:] {
		ref, _, _ := strings.Cut(part, `"`)
		kind, name, _ := strings.Cut(ref, "/")
		_, isSchema := d.Components.Schemas[name]
		_, isResponse := d.Components.Responses[name]
		if kind == "schemas" && !isSchema || kind == "responses" && !isResponse {
			t.Errorf("%s leads nowhere", ref)
		}
	}
}
