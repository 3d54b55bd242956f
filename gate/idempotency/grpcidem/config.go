package grpcidem

import (
	"context"
	"errors"
	"time"

	"github.com/comporta/comporta/gate/idempotency"
)

// Config is what an interceptor is made of. Only Keeper is required.
type Config struct {
	Keeper *idempotency.Keeper
	// Policy is that of a method, by its full name; nil is the zero policy for all.
	// A nil policy leaves the method's keys to the service.
	Policy func(method string) *idempotency.Policy
	// Client names who calls, the same in every process; nil, or "" from it, binds
	// keys to the call's authorization and cookie.
	Client func(context.Context) string
	// Linger bounds the work for a caller who has left; 0 means
	// idempotency.DefaultLinger.
	Linger time.Duration
}

func (c *Config) withDefaults() error {
	if c.Keeper == nil {
		return errors.New("grpcidem: Keeper is nil: make one by idempotency.New")
	}
	if c.Policy == nil {
		zero := new(idempotency.Policy)
		if err := c.Keeper.CheckPolicy(zero); err != nil {
			return err
		}
		c.Policy = func(string) *idempotency.Policy { return zero }
	}
	if c.Client == nil {
		c.Client = func(context.Context) string { return "" }
	}
	if c.Linger == 0 {
		c.Linger = idempotency.DefaultLinger
	}
	return nil
}
