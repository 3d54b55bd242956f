package admission

import (
	"errors"
	"strconv"
	"sync/atomic"
)

// routeWord counts the weight of one route in flight. It has a cache line for
// itself: routes are counted by different cores.
type routeWord struct {
	inflight atomic.Int64
	_        [56]byte
}

// route is a compiled Route.
type route struct {
	word      *routeWord
	weight    int
	share     float64
	sheddable bool
}

// bounded reports whether the route has a bound of its own below the limit.
func (r *route) bounded() bool { return r.share < 1 || r.sheddable }

// most returns the highest count of the route at which weight may still enter.
func (r *route) most(limit, weight int) int {
	holds := portion(r.share, limit)
	if r.sheddable {
		return min(holds-weight, below(shedLine, holds))
	}
	return holds - weight
}

// enter counts weight unless the route holds more than most. An unbounded route
// always lets in: its bound is that of the house.
func (r *route) enter(weight, most int) bool {
	if !r.bounded() {
		r.word.inflight.Add(int64(weight))
		return true
	}
	for {
		n := r.word.inflight.Load()
		if n > int64(most) {
			return false
		}
		if r.word.inflight.CompareAndSwap(n, n+int64(weight)) {
			return true
		}
	}
}

// full reports whether the route would keep weight out at this moment.
func (r *route) full(most int) bool {
	return r.bounded() && r.word.inflight.Load() > int64(most)
}

// routeWords finds the word of each route by its name, and makes those that are
// missing. Names that are no longer used and hold nothing make room for new ones.
func (s *State) routeWords(routes []Route) ([]*routeWord, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make(map[string]bool, len(routes))
	for i, r := range routes {
		names[routeName(i, r)] = true
	}
	if len(s.routes)+len(names) > maxRoutes {
		for name, w := range s.routes {
			if !names[name] && w.inflight.Load() == 0 {
				delete(s.routes, name)
			}
		}
	}
	if s.routes == nil {
		s.routes = make(map[string]*routeWord)
	}
	words := make([]*routeWord, len(routes))
	for i, r := range routes {
		name := routeName(i, r)
		w := s.routes[name]
		if w == nil {
			if len(s.routes) >= 2*maxRoutes {
				return nil, errors.New("admission: Routes: too many routes of earlier configurations are still busy; try again when they are done")
			}
			w = new(routeWord)
			s.routes[name] = w
		}
		words[i] = w
	}
	return words, nil
}

func routeName(i int, r Route) string {
	if r.Name == "" {
		return "#" + strconv.Itoa(i)
	}
	return r.Name
}
