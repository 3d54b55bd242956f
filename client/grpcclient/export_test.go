package grpcclient

import "github.com/comporta/comporta/bulkhead"

// Bulkhead returns the bulkhead of a target.
func (c *Client) Bulkhead(target string) *bulkhead.Bulkhead {
	return c.destinations.of(target).bulkhead
}
