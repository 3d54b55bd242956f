//go:build !unix

package socket

import "errors"

// supported: Of finds none, so that nobody comes to the functions below.
const supported = false

// Receive is not supported here.
func Receive(uintptr, []byte) (int, error) { return 0, errors.ErrUnsupported }

// Silent is not supported here.
func Silent(uintptr) bool { return false }

// Send is not supported here.
func Send(uintptr, []byte) (int, error) { return 0, errors.ErrUnsupported }
