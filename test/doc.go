// Package test runs the built binary against real services.
//
// Its tests carry the build tag integration and take the services' addresses from
// the environment, as test/services exports them; `make integration` does both.
package test
