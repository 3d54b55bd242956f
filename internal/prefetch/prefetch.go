// Package prefetch asks the processor to fetch memory before it is needed.
//
// A decision looks into tables that are far larger than the caches. One miss
// costs as much as the rest of a stage, and stages depend on each other, so the
// misses follow one another unless somebody asks for all of them at once. A load
// would do, but holds up what comes after it; and where the memory is guarded by
// a lock, it would be a race.
//
// A hint is never wrong: of a bad address nothing happens. On architectures
// without an implementation it costs nothing and does nothing.
package prefetch

import "unsafe"

// Line asks for the cache line at p.
func Line[T any](p *T) { line(unsafe.Pointer(p)) } //nolint:gosec // a hint reads nothing

// Four is Line for four places at once, for one call: the compiler inlines none.
func Four[T any](a, b, c, d *T) {
	four(unsafe.Pointer(a), unsafe.Pointer(b), unsafe.Pointer(c), unsafe.Pointer(d)) //nolint:gosec // as above
}

// Lines asks for n cache lines of 64 bytes from p on, which must lie within one
// object.
func Lines[T any](p *T, n uintptr) {
	for i := range n {
		line(unsafe.Add(unsafe.Pointer(p), i*64)) //nolint:gosec // a hint reads nothing
	}
}
