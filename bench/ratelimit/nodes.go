package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"github.com/comporta/comporta/gate/ratelimit"
	"github.com/comporta/comporta/gate/ratelimit/redislimit"
)

const (
	nodes       = 6
	nodeCallers = 8
	nodeRate    = 1000 // a second, and the burst
	nodePeriod  = redislimit.DefaultPeriod
)

// accuracy is one run of all nodes on one key.
type accuracy struct {
	admitted   int64
	took       time.Duration // from the first call to the end of the last
	reported   float64       // the worst overshoot that a node itself measured, as a part of the bound
	errors     int64
	limit      int64 // C + r·t
	mostBeyond int64 // min(N·L, r·T)
}

func (a *accuracy) bound() int64 { return a.limit + a.mostBeyond }

// nodeVariable makes this program one node: what it says is an order in JSON.
const nodeVariable = "COMPORTA_BENCH_NODE"

// order is what a node is to do.
type order struct {
	Addr   string        `json:"addr"`
	Prefix string        `json:"prefix"`
	Key    string        `json:"key"`
	Until  time.Time     `json:"until"` // by then all nodes have begun
	For    time.Duration `json:"for"`
}

// nodeReport is what it did.
type nodeReport struct {
	Admitted  int64     `json:"admitted"`
	Errors    int64     `json:"errors"`
	Began     time.Time `json:"began"`
	Ended     time.Time `json:"ended"`
	Overshoot float64   `json:"overshoot"`
}

// sixNodes runs six processes side by side, several times.
func sixNodes(ctx context.Context, addr string, runs int, each time.Duration) ([]accuracy, error) {
	var list []accuracy
	for i := range runs {
		a, err := oneRun(ctx, order{
			Addr: addr, Prefix: fmt.Sprintf("nodes:%d", i), Key: "hot", Until: time.Now().Add(20 * time.Second), For: each,
		})
		if err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	return list, nil
}

func oneRun(ctx context.Context, o order) (accuracy, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return accuracy{}, err
	}
	program, err := os.Executable()
	if err != nil {
		return accuracy{}, err
	}
	fleet := make([]*child, nodes)
	for i := range fleet {
		fleet[i] = newChild(ctx, program, string(text))
	}
	reports, err := together(fleet)
	if err != nil {
		return accuracy{}, err
	}
	var a accuracy
	began, ended := reports[0].Began, reports[0].Ended
	for _, r := range reports {
		a.admitted, a.errors, a.reported = a.admitted+r.Admitted, a.errors+r.Errors, max(a.reported, r.Overshoot)
		if r.Began.Before(began) {
			began = r.Began
		}
		if r.Ended.After(ended) {
			ended = r.Ended
		}
	}
	a.took = ended.Sub(began)
	a.limit = nodeRate + int64(nodeRate*a.took.Seconds())
	// L is half of a period's refill, and at most C/2N.
	lease := min(int64(nodeRate*nodePeriod.Seconds()/2), nodeRate/(2*nodes))
	a.mostBeyond = min(nodes*lease, int64(nodeRate*nodePeriod.Seconds()))
	return a, nil
}

// child is a node as this process sees it. It says that it is ready, begins when
// it is told to, reports, and leaves when nobody talks to it any more: nobody may
// leave the count of nodes while others still run.
type child struct {
	cmd        *exec.Cmd
	in         io.WriteCloser
	out        *json.Decoder
	complaints bytes.Buffer
	err        error
}

func newChild(ctx context.Context, program, order string) *child {
	c := &child{cmd: exec.CommandContext(ctx, program)}
	c.cmd.Env = append(os.Environ(), nodeVariable+"="+order)
	c.cmd.Stderr = &c.complaints
	out, err := c.cmd.StdoutPipe()
	if err == nil {
		c.in, err = c.cmd.StdinPipe()
	}
	if err == nil {
		err = c.cmd.Start()
	}
	c.out, c.err = json.NewDecoder(out), err
	return c
}

// hear reads one thing that the node says.
func (c *child) hear(said any) {
	if c.err == nil {
		c.err = c.out.Decode(said)
	}
}

// together lets all nodes begin when all are ready.
func together(fleet []*child) ([]nodeReport, error) {
	reports := make([]nodeReport, len(fleet))
	var ready bool
	for _, c := range fleet {
		c.hear(&ready)
	}
	for _, c := range fleet {
		if c.err == nil {
			_, c.err = io.WriteString(c.in, "true\n")
		}
	}
	for i, c := range fleet {
		c.hear(&reports[i])
	}
	var problems []error
	for _, c := range fleet {
		if c.cmd.Process != nil {
			c.err = errors.Join(c.err, c.in.Close(), c.cmd.Wait())
		}
		if c.err != nil {
			problems = append(problems, fmt.Errorf("a node: %w: %s", c.err, &c.complaints))
		}
	}
	return reports, errors.Join(problems...)
}

// runNode is one node: a process with a connection of its own.
func runNode(text string, in io.Reader, out, complaints io.Writer) int {
	if err := node(text, json.NewDecoder(in), json.NewEncoder(out)); err != nil {
		fmt.Fprintln(complaints, err)
		return 1
	}
	return 0
}

func node(text string, in *json.Decoder, out *json.Encoder) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	ctx, cancel := context.WithDeadline(context.Background(), o.Until.Add(o.For))
	defer cancel()
	where, err := redislimit.ParseURL("redis://" + o.Addr)
	if err != nil {
		return err
	}
	// The budget is long: here two CPUs carry six processes and the server.
	store, err := redislimit.New(ctx, redislimit.Config{Redis: where, Prefix: o.Prefix, Period: nodePeriod, Nodes: nodes, Timeout: 5 * time.Second})
	if err != nil {
		return err
	}
	defer func() { _ = store.Close(context.WithoutCancel(ctx)) }()
	policy, err := ratelimit.NewPolicy(ratelimit.Policy{Name: "api", Limit: ratelimit.Limit{Rate: ratelimit.Rate{Count: nodeRate, Per: time.Second}}})
	if err == nil {
		err = store.Prepare(time.Now(), policy)
	}
	if err == nil {
		err = meet(ctx, store)
	}
	var begin, more bool
	if err == nil {
		err = errors.Join(out.Encode(true), in.Decode(&begin))
	}
	if err != nil {
		return err
	}
	r := nodeReport{Began: time.Now()}
	r.Admitted, r.Errors = flatOut(ctx, store, policy, o)
	r.Ended, r.Overshoot = time.Now(), store.StatsAt(time.Now()).OvershootRatio
	if err := out.Encode(r); err != nil {
		return err
	}
	_ = in.Decode(&more) // the end of what is said ends the node
	return nil
}

// meet waits until all nodes know of each other.
func meet(ctx context.Context, store *redislimit.Store) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for store.StatsAt(time.Now()).Nodes < nodes {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d nodes know of each other: %w", store.StatsAt(time.Now()).Nodes, nodes, ctx.Err())
		}
	}
	return nil
}

func flatOut(ctx context.Context, store *redislimit.Store, policy *ratelimit.Policy, o order) (admitted, failed int64) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	end := time.Now().Add(o.For)
	for range nodeCallers {
		wg.Go(func() {
			debits, results := []ratelimit.Debit{{Policy: policy, Key: []byte(o.Key), Cost: 1, Believed: true}}, make([]ratelimit.Result, 1)
			var mine, errs int64
			for now := time.Now(); now.Before(end); now = time.Now() {
				ok, err := store.Take(ctx, now, debits, results)
				switch {
				case err != nil:
					errs++
				case ok:
					mine++
				default:
					runtime.Gosched()
				}
			}
			mu.Lock()
			defer mu.Unlock()
			admitted, failed = admitted+mine, failed+errs
		})
	}
	wg.Wait()
	return admitted, failed
}
