package grpcclient

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// A method's .proto says whether it may be executed twice.
func TestDeclared(t *testing.T) {
	method := func(name string, level *descriptorpb.MethodOptions_IdempotencyLevel) *descriptorpb.MethodDescriptorProto {
		return &descriptorpb.MethodDescriptorProto{
			Name: new(name), InputType: new(".declared.Empty"), OutputType: new(".declared.Empty"),
			Options: &descriptorpb.MethodOptions{IdempotencyLevel: level},
		}
	}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: new("declared_test.proto"), Package: new("declared"), Syntax: new("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: new("Empty")}},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: new("Orders"), Method: []*descriptorpb.MethodDescriptorProto{
			method("Get", descriptorpb.MethodOptions_NO_SIDE_EFFECTS.Enum()),
			method("Put", descriptorpb.MethodOptions_IDEMPOTENT.Enum()),
			method("Pay", nil),
		}}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := protoregistry.GlobalFiles.FindFileByPath(file.Path()); err != nil { // not yet, by an earlier run
		if err := protoregistry.GlobalFiles.RegisterFile(file); err != nil {
			t.Fatal(err)
		}
	}
	for method, want := range map[string]bool{
		"/declared.Orders/Get": true, "/declared.Orders/Put": true, "/declared.Orders/Pay": false,
		"/declared.Orders/None": false, "/declared.Empty/x": false, "": false, "/": false, "declared.Orders": false, "/a/b/c": false,
	} {
		if Declared(method) != want {
			t.Errorf("%q is %t", method, !want)
		}
	}
}

func TestEndpoint(t *testing.T) {
	for target, want := range map[string]string{
		"orders:443": "orders:443", "dns:///orders:443": "orders:443", "dns://8.8.8.8/orders": "orders",
		"passthrough:///x": "x", "unix:///run/x.sock": "run/x.sock", "unix:x.sock": "unix:x.sock", "": "", "a://b": "a://b", "a://b/": "a://b/",
	} {
		if got := endpoint(target); got != want {
			t.Errorf("%q is %q, want %q", target, got, want)
		}
	}
}

// However many targets a program walks through, at most twice the limit are
// kept, and none that is in use is lost.
func TestDestinationsAreBounded(t *testing.T) {
	c, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	c.destinations.limit = 4
	kept := c.destinations.of("kept")
	for i := range 1000 {
		c.destinations.of(fmt.Sprint(i))
		if c.destinations.of("kept") != kept {
			t.Fatal("a destination in use was lost")
		}
		if n := len(c.destinations.newer) + len(c.destinations.older); n > 8 {
			t.Fatalf("%d destinations", n)
		}
	}
}
