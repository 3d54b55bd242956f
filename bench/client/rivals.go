//nolint:bodyclose // what it takes for responses are the type arguments of failsafe-go
package main

import (
	"context"
	"maps"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/aws/aws-sdk-go-v2/aws"
	awsretry "github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/budget"
	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/gojek/heimdall/v7"
	heimdallclient "github.com/gojek/heimdall/v7/httpclient"
	"github.com/hashicorp/go-retryablehttp"
)

// The policy that every client gets, as far as it knows the word.
const (
	attempts = 4
	base     = 2 * time.Millisecond
	ceiling  = 16 * time.Millisecond
	total    = 2 * time.Second
)

func rivals() []contestant {
	return []contestant{
		{"go-retryablehttp v0.7.8", retryable},
		{"failsafe-go v0.9.8, retry", failsafeRetry},
		{"failsafe-go v0.9.8, retry, budget, breaker, bulkhead", failsafeAll},
		{"heimdall v7.0.3", heimdallClient},
		{"azcore v1.24.0", azure},
		{"aws-sdk-go-v2 v1.48.0, its retryer in a loop", awsLoop},
	}
}

func retryable(d doer) (doer, error) {
	c := retryablehttp.NewClient()
	c.Logger = nil
	c.RetryMax, c.RetryWaitMin, c.RetryWaitMax = attempts-1, base, ceiling
	c.HTTPClient = plain(d)
	return c.StandardClient(), nil
}

func failsafeRetry(d doer) (doer, error) {
	return &http.Client{Transport: failsafehttp.NewRoundTripper(transportOf(d), failsafePolicy().Build())}, nil
}

// failsafeAll has the retries around the rest, as the documentation of
// failsafe-go composes them. Its budget is a share of the calls in flight.
func failsafeAll(d doer) (doer, error) {
	failed := func(resp *http.Response, err error) bool { return err != nil || resp.StatusCode >= 500 }
	repeat := failsafePolicy().WithBudget(budget.NewBuilder().WithMaxRate(0.1).Build())
	open := circuitbreaker.NewBuilder[*http.Response]().HandleIf(failed).
		WithFailureRateThreshold(0.5, 20, 10*time.Second).WithDelay(5 * time.Second)
	policies := []failsafe.Policy[*http.Response]{repeat.Build(), open.Build(), bulkhead.New[*http.Response](64)}
	return &http.Client{Transport: failsafehttp.NewRoundTripper(transportOf(d), policies...)}, nil
}

func failsafePolicy() retrypolicy.Builder[*http.Response] {
	return failsafehttp.NewRetryPolicyBuilder().
		WithMaxAttempts(attempts).WithMaxDuration(total).WithBackoff(base, ceiling).WithJitterFactor(0.5)
}

func heimdallClient(d doer) (doer, error) {
	return heimdallclient.NewClient(
		heimdallclient.WithHTTPClient(plain(d)),
		heimdallclient.WithRetryCount(attempts-1),
		heimdallclient.WithRetrier(heimdall.NewRetrier(heimdall.NewExponentialBackoff(base, ceiling, 2, base))),
	), nil
}

// azurePipeline is azcore's pipeline as a doer.
type azurePipeline struct{ runtime.Pipeline }

func azure(d doer) (doer, error) {
	return azurePipeline{runtime.NewPipeline("bench", "v1.0.0", runtime.PipelineOptions{}, &policy.ClientOptions{
		Transport: plain(d),
		Retry:     policy.RetryOptions{MaxRetries: attempts - 1, RetryDelay: base, MaxRetryDelay: ceiling},
	})}, nil
}

// Do implements doer.
func (p azurePipeline) Do(r *http.Request) (*http.Response, error) {
	req, err := runtime.NewRequest(r.Context(), r.Method, r.URL.String())
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Raw().Header, r.Header)
	return p.Pipeline.Do(req)
}

// awsClient is the loop that the SDK makes of its retryer, without the SDK.
type awsClient struct {
	below   *http.Client
	retryer aws.RetryerV2
}

func awsLoop(d doer) (doer, error) {
	return &awsClient{plain(d), awsretry.NewStandard(func(o *awsretry.StandardOptions) {
		o.MaxAttempts, o.MaxBackoff, o.BaseDelay = attempts, ceiling, base
		o.Backoff = awsretry.NewExponentialJitterBackoff(ceiling)
	})}, nil
}

// statusError is a failed answer as the retryer asks for it.
type statusError struct{ status int }

// Error implements error.
func (e statusError) Error() string { return http.StatusText(e.status) }

// HTTPStatusCode is what the retryer looks for.
func (e statusError) HTTPStatusCode() int { return e.status }

// Do implements doer.
func (c *awsClient) Do(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	var err error
	release := func(error) error { return nil }
	for attempt := 1; ; attempt++ {
		token, tokenErr := c.retryer.GetAttemptToken(ctx)
		if tokenErr != nil {
			return nil, tokenErr
		}
		resp, failed := c.below.Do(req)
		if err = failed; err == nil && resp.StatusCode >= 500 {
			err = statusError{resp.StatusCode}
		}
		if releaseErr := c.release(err, release, token); releaseErr != nil {
			return resp, releaseErr
		}
		if err == nil || !c.retryer.IsErrorRetryable(err) || attempt >= c.retryer.MaxAttempts() {
			return resp, failed
		}
		if release, tokenErr = c.retryer.GetRetryToken(ctx, err); tokenErr != nil {
			return resp, failed
		}
		wait, delayErr := c.retryer.RetryDelay(attempt, err)
		if delayErr != nil {
			return resp, delayErr
		}
		if resp != nil {
			read(resp)
		}
		if err := sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// release gives the tokens of an attempt back, as far as its outcome earns it.
func (*awsClient) release(err error, tokens ...func(error) error) error {
	for _, token := range tokens {
		if releaseErr := token(err); releaseErr != nil && err != nil {
			return releaseErr
		}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
