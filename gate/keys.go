package gate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate/idempotency"
	"github.com/comporta/comporta/gate/identity"
	"github.com/comporta/comporta/store"
)

// Idempotency is where idempotency keys are kept. Which routes read them is said
// by Route.Idempotency.
type Idempotency struct {
	// Keeper outlives the gate; nil: no key is kept, and no route may have a policy.
	Keeper *idempotency.Keeper
	// Other is the policy of what matches no route; nil leaves its keys to the service.
	Other *idempotency.Policy
	// Linger bounds the service's work for a caller who has left, and how long a
	// duplicate stands by; 0 means idempotency.DefaultLinger.
	Linger time.Duration
}

// keyed is the keeping of keys, compiled. A nil one keeps none.
type keyed struct {
	keeper   *idempotency.Keeper
	policies []*idempotency.Policy // by route
	linger   time.Duration
	clients  identity.Config

	mu    sync.Mutex
	names *scopeNames // nil until the store has told its secret
}

// scopeNames tells clients apart in the scopes of keys. Their names there have to
// be the same in every process that shares the store and after every restart,
// whatever becomes of the keys that name clients elsewhere, and of 128 bits, since
// one who had another's name would get another's answer. So they are two names of
// 64 bits each, under keys derived from the secret of the store.
type scopeNames [2]*identity.Identifier

func (g *Gate) compileKeys(c *Config) error {
	if g.routes == nil {
		return nil
	}
	k := &keyed{keeper: c.Idempotency.Keeper, linger: c.Idempotency.Linger, clients: c.Clients}
	if k.linger == 0 {
		k.linger = idempotency.DefaultLinger
	}
	k.clients.Names, k.clients.MinimumVersion = nil, nil // they name nobody here
	g.routes.list[otherRoute].Idempotency = c.Idempotency.Other
	some := false
	var problems []error
	for i := range g.routes.list {
		r := &g.routes.list[i]
		k.policies = append(k.policies, r.Idempotency)
		switch {
		case r.Idempotency == nil:
			continue
		case k.keeper == nil:
			problems = append(problems, fmt.Errorf("gate: route %q keeps idempotency keys, and Idempotency.Keeper is nil: make one over a store", r.Name))
		default:
			if err := k.keeper.CheckPolicy(r.Idempotency); err != nil {
				problems = append(problems, fmt.Errorf("gate: route %q: %w", r.Name, err))
			}
		}
		some = true
	}
	if some {
		g.keys = k
	}
	return errors.Join(problems...)
}

// policyOf is the policy for the request's key; nil: it is the service's affair.
// What is safe is done as often as it is asked. An Upgrade header changes nothing:
// many clients offer h2c on every request, and upgrades that are meant use GET.
func (k *keyed) policyOf(r *comporta.Request) *idempotency.Policy {
	if k == nil || r.Safe() || r.IdempotencyKey == "" {
		return nil
	}
	return k.policies[r.Route]
}

// fault says what is wrong with a request as far as its key goes, and more of it in
// detail.
func (k *keyed) fault(r *comporta.Request, detail *comporta.Detail) comporta.Reason {
	if k == nil || r.Safe() {
		return comporta.ReasonNone
	}
	var reason comporta.Reason
	switch p := k.policies[r.Route]; {
	case p == nil:
		return comporta.ReasonNone
	case r.InvalidKey:
		reason, *detail = comporta.IdempotencyKeyInvalid, comporta.KeyFault(r.Header[comporta.HeaderIdempotencyKey])
	case r.IdempotencyKey == "" && p.Require:
		reason = comporta.IdempotencyKeyMissing
	default:
		return comporta.ReasonNone
	}
	k.keeper.CountRefusal(reason)
	return reason
}

// scoped returns the names of clients in scopes.
func (k *keyed) scoped(ctx context.Context) (*scopeNames, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.names != nil {
		return k.names, nil
	}
	secret, err := k.keeper.Derive(ctx, "client")
	if err != nil {
		return nil, err
	}
	var names scopeNames
	for i := range names {
		c := k.clients
		copy(c.HashKey[:], secret[16*i:])
		if names[i], err = identity.New(c, nil); err != nil {
			return nil, err // the same configuration was good enough for the gate
		}
	}
	k.names = &names
	return k.names, nil
}

// operation names what a request does under its key.
func (k *keyed) operation(ctx context.Context, now time.Time, r *comporta.Request, policy *idempotency.Policy, route *Route) (op idempotency.Operation, err error) {
	names, err := k.scoped(ctx)
	if err != nil {
		return op, err
	}
	var client [16]byte
	for i, id := range names {
		same := *r
		id.NameAt(now, &same)
		for j := range 8 {
			client[8*i+j] = byte(same.Client.Key >> (8 * j))
		}
	}
	scope := idempotency.Scope{Client: client[:], Method: r.Method, Route: route.Match, Host: r.Host, Key: r.IdempotencyKey}
	if r.Client.Shared {
		scope.Credentials = idempotency.CredentialsOf(r.Header)
	}
	op.Name, err = k.keeper.Name(ctx, &scope)
	op.Policy, op.Fingerprint = policy, idempotency.NewFingerprint(r.Path, r.Query)
	op.Label = store.Label{Client: r.Client.Name, Method: idempotency.Clip(r.Method), Route: idempotency.Clip(route.Name), Key: r.IdempotencyKey}
	if op.Label.Client == "" {
		op.Label.Client = identity.KeyString(r.Client.Key)
	}
	return op, err
}

// Keeper returns what keeps the keys; nil: none are kept.
func (g *Gate) Keeper() *idempotency.Keeper {
	if g.keys == nil {
		return nil
	}
	return g.keys.keeper
}
