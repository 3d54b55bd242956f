package telemetry

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate"
	"github.com/comporta/comporta/gate/identity"
)

// accessLog writes one line a request. The query stays out of it: tokens travel
// there. So do credentials, which the gate never keeps.
type accessLog struct {
	log    *slog.Logger
	sample float64
}

func newAccessLog(c Config) *accessLog {
	if c.AccessLog == nil {
		return nil
	}
	sample := c.Sample
	if sample == 0 {
		sample = 1
	}
	return &accessLog{c.AccessLog, sample}
}

func (l *accessLog) write(now time.Time, g *gate.Gate, r *comporta.Request, d *comporta.Decision, o *comporta.Outcome) {
	// Behind admission the gateway may still have to refuse: the service cannot be
	// reached, say. The decision stays "admitted", and the reason tells.
	refused, reason := d.Action != comporta.ActionAdmit, d.Reason != comporta.ReasonNone
	if !refused && !reason && l.sample < 1 && rand.Float64() >= l.sample {
		return
	}
	id, client, route := r.ID, r.Client.Name, ""
	if client == "" {
		client = identity.KeyString(r.Client.Key)
	}
	if g != nil {
		route, id = g.RouteOf(r).Name, g.State().RequestID(r)
	}
	attrs := make([]slog.Attr, 0, 20)
	attrs = append(attrs,
		slog.String("request_id", id), slog.String("method", r.Method), slog.String("host", r.Host), slog.String("path", r.Path),
		slog.String("route", route), slog.Int("status", o.Status), slog.String("decision", decision(d)), slog.String("result", o.Result.String()),
		slog.String("client", client), slog.String("class", r.Client.Class.String()),
		slog.String("kind", r.Sighting.Kind.String()), slog.Int("attempts", r.Sighting.Attempts),
	)
	if refused || reason {
		attrs = append(attrs, slog.String("reason", d.Reason.String()))
	}
	if refused {
		attrs = append(attrs, slog.Int64("retry_after_ms", d.Wait.Milliseconds()),
			slog.String("slot", r.Slot.State.String()), slog.String("evidence", r.Sighting.Evidence.String()))
	}
	if d.WouldRefuse != comporta.ReasonNone {
		attrs = append(attrs, slog.String("would_reject", d.WouldRefuse.String()))
	}
	if r.Version.Name != "" {
		attrs = append(attrs, slog.String("version", r.Version.Name))
	}
	attrs = append(attrs, slog.Float64("queue_wait_ms", ms(d.Queued)), slog.Float64("duration_ms", ms(o.Latency)))
	record := slog.NewRecord(now, slog.LevelInfo, "request", 0)
	record.AddAttrs(attrs...)
	// A log that cannot be written must not fail a request that succeeded.
	_ = l.log.Handler().Handle(context.Background(), record)
}

func decision(d *comporta.Decision) string {
	switch d.Action {
	case comporta.ActionAdmit:
		return "admitted"
	case comporta.ActionReplay:
		return "replayed"
	case comporta.ActionRefuse, comporta.ActionWait:
	}
	return d.Reason.String()
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
