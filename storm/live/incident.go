package live

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/comporta/comporta/storm"
)

// Incident runs a storm on loopback against the sample service. wrap puts a
// defence before the service; nil means none. watch may be nil, see Storm.Watch.
// Nothing listens and no goroutine is left when it returns.
func Incident(ctx context.Context, scenario storm.Scenario, wrap func(http.Handler) http.Handler, watch func(*Recording)) (*Recording, error) {
	service := NewService(scenario.Service)
	defer service.Close()
	var handler http.Handler = service
	if wrap != nil {
		handler = wrap(service)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("live: no port on loopback: %w", err)
	}
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 5 * time.Second,
		// Clients that hang up are the point of the storm, not news.
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	transport := NewTransport(false)
	s := Storm{
		Scenario: scenario, URL: "http://" + listener.Addr().String(), Transport: transport,
		Dependency: service.SetDown, Watch: watch,
	}
	recording, err := s.Run(ctx)
	worked := service.Worked()
	transport.CloseIdleConnections()
	service.Close()
	if closing := errors.Join(server.Close(), ended(<-served)); err == nil {
		err = closing
	}
	if err != nil {
		return nil, err
	}
	recording.Worked = worked
	return recording, nil
}

func ended(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
