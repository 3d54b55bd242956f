// Package hugepage asks the system to back large tables with large pages.
//
// A table of 32 MiB has 8,192 pages of 4 KiB, more than the processor's
// translation caches hold: a random access then walks the page tables besides
// missing the data, and on a virtual machine walks them twice. Where the system
// grants pages of 2 MiB the walk is gone. It is advice: refused, nothing changes.
package hugepage

import "unsafe"

const size = 2 << 20

// Advise asks for large pages under table, which must stay as large as it is.
// Only whole large pages within it are affected. Call it before the memory is
// used for the first time.
func Advise[T any](table []T) {
	if len(table) == 0 {
		return
	}
	begin := uintptr(unsafe.Pointer(&table[0])) //nolint:gosec // a number to align by; the table is alive
	end := begin + uintptr(len(table))*unsafe.Sizeof(table[0])
	skip := (size - begin%size) % size
	if begin+skip+size > end {
		return
	}
	length := (end - begin - skip) &^ (size - 1)
	advise(unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(&table[0]), skip)), length)) //nolint:gosec // within the table
}
