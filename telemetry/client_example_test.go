package telemetry_test

import (
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/comporta/comporta/client"
	"github.com/comporta/comporta/client/retry"
	"github.com/comporta/comporta/telemetry"
)

func ExampleClient() {
	reg := prometheus.NewRegistry()
	m, err := telemetry.NewClient(reg)
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := client.New(client.Config{Version: "acme-app/2.4.1", Trace: m.Trace()})
	if err != nil {
		fmt.Println(err)
		return
	}
	orders := c.HTTP(&http.Client{Transport: m.Pool(nil)})
	_ = orders // orders.Do(req), as with any http.Client

	m.Finished(retry.Report{Destination: "orders:443", Version: "acme-app/2.4.1", Attempts: 3}) // what Trace does
	families, err := reg.Gather()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range families {
		if f.GetName() == "comporta_client_retries_total" {
			for _, label := range f.GetMetric()[0].GetLabel() {
				fmt.Println(label.GetName(), label.GetValue())
			}
			fmt.Println(f.GetMetric()[0].GetCounter().GetValue())
		}
	}
	// Output:
	// client_version acme-app/2.4.1
	// dependency orders:443
	// 2
}
