package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	sentinel "github.com/alibaba/sentinel-golang/api"
	"github.com/alibaba/sentinel-golang/core/base"
	"github.com/alibaba/sentinel-golang/core/config"
	"github.com/alibaba/sentinel-golang/core/system"
	"github.com/alibaba/sentinel-golang/logging"
	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"github.com/go-kratos/aegis/ratelimit"
	"github.com/go-kratos/aegis/ratelimit/bbr"
	"github.com/platinummonkey/go-concurrency-limits/core"
	"github.com/platinummonkey/go-concurrency-limits/limit"
	"github.com/platinummonkey/go-concurrency-limits/limiter"
	"github.com/platinummonkey/go-concurrency-limits/strategy"
	"github.com/zeromicro/go-zero/core/load"
	"github.com/zeromicro/go-zero/core/logx"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/bench/internal/measure"
	"github.com/comporta/comporta/gate"
	"github.com/comporta/comporta/gate/admission"
	"github.com/comporta/comporta/gate/admission/seek"
)

// Every limiter here learns its limit, admits one request at a time, and is told
// of a success. All of them read the clock at both ends, so ours does too.
//
// Those that judge only above a CPU usage are told to do so above 100 %, that is
// never: judging is the dearer way through them, and whether they took it would
// depend on who else uses the machine.

// ourLimiter is admission as the gate compiles it by default: a learned
// capacity, the short queue, one route.
func ourLimiter() (*measure.Subject, error) {
	limit, err := seek.New(seek.Config{})
	if err != nil {
		return nil, err
	}
	c, err := admission.New(admission.Config{
		Learner: limit, Ceiling: seek.Config{}.Ceiling(), QueueWait: gate.DefaultQueueWait,
	}, new(admission.State))
	if err != nil {
		return nil, err
	}
	r := &comporta.Request{Client: comporta.Client{Key: spread(1)}}
	return &measure.Subject{Name: "gate/admission", Run: func(n int) error {
		for range n {
			start := time.Now()
			g := c.AdmitAt(start, r, admission.View{})
			if !g.Admitted() {
				return errRefused
			}
			end := start.Add(time.Since(start)) // the second reading of a clock needs no date
			g.Permit.ReleaseAt(end, comporta.Outcome{Status: 200, Result: comporta.ResultSuccess, Latency: end.Sub(start)})
		}
		return nil
	}}, nil
}

// failsafeLimiter has its defaults (limits of 1 to 200 from 20, windows of a
// second), and is asked by the cheapest of its ways in, the one that never waits.
func failsafeLimiter() *measure.Subject {
	l := adaptivelimiter.NewWithDefaults[any]()
	return &measure.Subject{Name: "failsafe-go adaptivelimiter", Run: func(n int) error {
		for range n {
			permit, ok := l.TryAcquirePermit()
			if !ok {
				return errRefused
			}
			permit.Record()
		}
		return nil
	}}
}

// goZero has its defaults (a window of 5 s in 50 buckets) but for the CPU. Its
// log is off, as is ours.
func goZero() *measure.Subject {
	logx.Disable()
	load.DisableLog()
	s := load.NewAdaptiveShedder(load.WithCpuThreshold(1001))
	return &measure.Subject{Name: "go-zero core/load", Run: func(n int) error {
		for range n {
			promise, err := s.Allow()
			if err != nil {
				return errors.Join(errRefused, err)
			}
			promise.Pass()
		}
		return nil
	}}
}

// aegis has its defaults (a window of 10 s in 100 buckets) but for the CPU. It
// takes no sample of the time of what lasts less than 1 ms.
func aegis() *measure.Subject {
	l := bbr.NewLimiter(bbr.WithCPUThreshold(1001))
	return &measure.Subject{Name: "aegis BBR", Run: func(n int) error {
		for range n {
			done, err := l.Allow()
			if err != nil {
				return errors.Join(errRefused, err)
			}
			done(ratelimit.DoneInfo{})
		}
		return nil
	}}
}

// concurrencyLimits is its default limiter (Vegas) over its simplest strategy,
// without metrics and without a log. That default takes no sample of what lasts
// less than 100 us, so it is spared most of its learning here.
func concurrencyLimits() (*measure.Subject, error) {
	l, err := limiter.NewDefaultLimiterWithDefaults("bench", strategy.NewSimpleStrategy(20),
		limit.NoopLimitLogger{}, core.EmptyMetricRegistryInstance)
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	return &measure.Subject{Name: "go-concurrency-limits Vegas", Run: func(n int) error {
		for range n {
			token, ok := l.Acquire(ctx)
			if !ok {
				return errRefused
			}
			token.OnSuccess()
		}
		return nil
	}}, nil
}

// sentinelSystem is an inbound entry under one system rule, BBR above a CPU
// usage. The metric log is off and the other one says errors only; the directory
// that it insists on is left to the caller to remove.
func sentinelSystem() (_ *measure.Subject, directory string, err error) {
	directory, err = os.MkdirTemp("", "bench-sentinel-")
	if err != nil {
		return nil, "", err
	}
	c := config.NewDefaultConfig()
	c.Sentinel.App.Name = "bench"
	c.Sentinel.Log.Dir = directory
	c.Sentinel.Log.Metric.FlushIntervalSec = 0
	logging.ResetGlobalLoggerLevel(logging.ErrorLevel)
	if err := sentinel.InitWithConfig(c); err != nil {
		return nil, directory, fmt.Errorf("sentinel: %w", err)
	}
	rules := []*system.Rule{{MetricType: system.CpuUsage, TriggerCount: 1, Strategy: system.BBR}}
	if _, err := system.LoadRules(rules); err != nil {
		return nil, directory, fmt.Errorf("sentinel: %w", err)
	}
	return &measure.Subject{Name: "sentinel-golang system rule", Run: func(n int) error {
		for range n {
			e, blocked := sentinel.Entry("bench", sentinel.WithTrafficType(base.Inbound))
			if blocked != nil {
				return errors.Join(errRefused, blocked)
			}
			e.Exit()
		}
		return nil
	}}, directory, nil
}
