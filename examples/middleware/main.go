// Command middleware is a small service with the gate in front of its handlers.
//
//	go run ./examples/middleware
//	curl -i http://127.0.0.1:8081/orders/7
//
// It works on two requests at once and makes each take a while, so that a handful
// of curls is enough to see a refusal.
package main

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/comporta/comporta/gate"
	"github.com/comporta/comporta/gate/overload"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8081", "`ADDR` to serve on")
	work := flag.Duration("work", 200*time.Millisecond, "how long an order takes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *listen, *work)
	stop()
	if err != nil {
		slog.Error("middleware", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, listen string, work time.Duration) error {
	g, err := gate.New(gate.Config{
		Routes: []gate.Route{
			{Match: "GET /health", Name: "health", Exempt: true}, // a load balancer must not be told to come back later
		},
		// Leave Admission empty and the capacity is learned; a number is for a
		// service that knows its pool.
		Admission: gate.Admission{Capacity: 2},
	}, nil)
	if err != nil {
		return err
	}
	server := &http.Server{
		Addr: listen, Handler: g.Wrap(service(work)),
		ReadHeaderTimeout: 5 * time.Second,
	}
	drained := make(chan error, 1)
	go func() {
		<-ctx.Done()
		soft, cancel := context.WithTimeout(context.WithoutCancel(ctx), 8*time.Second)
		defer cancel()
		drained <- server.Shutdown(soft)
	}()
	slog.Info("serving", "listen", listen)
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-drained
}

// service is what is protected: it knows nothing of the gate but the two ways in
// which it may say no itself.
func service(work time.Duration) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("GET /orders/{id}", func(w http.ResponseWriter, r *http.Request) {
		id, err := strconv.Atoi(r.PathValue("id"))
		if err != nil {
			// Another try fails the same way: the answer says so, and names no time.
			overload.Deterministic(w, r, http.StatusUnprocessableEntity, "order_id_invalid", "an order's id is a number")
			return
		}
		if id == 13 { // stands for a dependency that the service knows to be down
			overload.Busy(w, r, 5*time.Second)
			return
		}
		select {
		case <-time.After(work):
		case <-r.Context().Done(): // the caller left, or its patience ran out
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"id":` + strconv.Itoa(id) + "}\n")) // a caller that left
	})
	return mux
}
