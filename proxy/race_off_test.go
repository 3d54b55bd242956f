//go:build !race

package proxy_test

// racing is set under the race detector, which allocates.
const racing = false
