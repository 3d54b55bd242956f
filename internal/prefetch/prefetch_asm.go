//go:build amd64 || arm64

package prefetch

import "unsafe"

//go:noescape
func line(p unsafe.Pointer)

//go:noescape
func four(a, b, c, d unsafe.Pointer)
