package facade_test

import (
	"context"
	"fmt"
	"io"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/monitor"
)

// The outcomes and durations of each tool since its server was registered.
func ExampleClient_ToolStats() {
	ctx := context.Background()
	c := newExampleClient()
	defer func() { _ = c.Close(ctx) }()
	for range 3 {
		_, _ = c.CallTool(ctx, "demo/echo", map[string]any{"text": "x"})
	}
	_, _ = c.CallTool(ctx, "demo/fail", map[string]any{"text": "no"})
	for _, s := range c.ToolStats("demo") {
		fmt.Println(s.Name, s.Calls, s.ToolErrors, s.Duration.Quantile(0.95) > 0)
	}
	// Output:
	// demo/echo 3 0 true
	// demo/fail 1 1 true
}

// What the client works on now.
func ExampleClient_CallsInFlight() {
	ctx, cancel := context.WithCancel(context.Background())
	c := newExampleClient()
	defer func() { _ = c.Close(context.Background()) }()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = c.CallTool(ctx, "demo/hang", nil)
	}()
	for len(c.CallsInFlight()) == 0 { // until the call has begun
	}
	for _, call := range c.CallsInFlight() {
		fmt.Println(call.Server, call.Method, call.Target, call.Queued)
	}
	cancel()
	<-done
	// Output: demo tools/call hang false
}

// The calls that have ended, with their outcome.
func ExampleHistory_Calls() {
	ctx := context.Background()
	c := newExampleClient()
	defer func() { _ = c.Close(ctx) }()
	_, _ = c.CallTool(ctx, "demo/echo", map[string]any{"text": "x"})
	_, _ = c.CallTool(ctx, "demo/crash", nil)
	calls, missed := c.History().Calls(0)
	for _, r := range calls {
		fmt.Printf("%d %s %q\n", r.Seq, r.Target, r.Outcome)
	}
	fmt.Println(missed, "were dropped")
	// Output:
	// 1 echo ""
	// 2 crash "unknown"
	// 0 were dropped
}

// The events so far, for a viewer that comes later.
func ExampleHistory_Events() {
	c := newExampleClient()
	defer func() { _ = c.Close(context.Background()) }()
	events, _ := c.History().Events(0)
	for _, e := range events {
		fmt.Println(e.Seq, e.Kind)
	}
	// Output:
	// 1 registered
	// 2 connecting
	// 3 ready
}

// The last lines that a live server wrote to stderr.
func ExampleClient_Stderr() {
	ctx := context.Background()
	inner := mcptest.InMemory(mcptest.Script{})
	c := exampleClient(mcpvisor.ServerSpec{Name: "s", Secrets: []string{"hunter2"}, InMemory: &mcpvisor.InMemory{
		Serve: func(ctx context.Context, in io.ReadCloser, out io.WriteCloser, stderr io.Writer) error {
			fmt.Fprintln(stderr, "cache is cold")
			fmt.Fprintln(stderr, "the password is hunter2")
			return inner.Serve(ctx, in, out, stderr)
		}}})
	defer func() { _ = c.Close(ctx) }()
	stderr, _ := c.Stderr("s")
	lines, _ := stderr.After(0)
	for _, line := range lines {
		fmt.Println(line)
	}
	// Output:
	// cache is cold
	// the password is ***
}

// The facts about the client as a whole.
func ExampleClient_Stats() {
	ctx := context.Background()
	c := newExampleClient()
	defer func() { _ = c.Close(ctx) }()
	_, _ = c.CallTool(ctx, "demo/echo", nil)
	_, _ = c.CallTool(ctx, "nowhere/echo", nil)
	s := c.Stats()
	fmt.Println(s.Events, s.Calls, s.UnknownServer, s.StaleMessages)
	// Output: 3 1 1 0
}

// printingObserver prints the calls and sends a trace context with them.
type printingObserver struct{}

func (printingObserver) RequestStarted(ctx context.Context, _ monitor.RequestStart) (context.Context, []byte) {
	return ctx, []byte(`{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}`)
}

func (printingObserver) RequestEnded(_ context.Context, r monitor.RequestEnd) {
	if r.Method == "tools/call" {
		fmt.Println(r.Server, r.Target, r.Outcome, r.Err == nil, r.Took > 0)
	}
}

// An observer sees each request at its start and its end.
func ExampleWithObserver() {
	ctx := context.Background()
	c := newExampleClient(facade.WithObserver(printingObserver{}))
	defer func() { _ = c.Close(ctx) }()
	_, _ = c.CallTool(ctx, "demo/echo", map[string]any{"text": "x"})
	_, _ = c.CallTool(ctx, "demo/crash", nil)
	// Output:
	// demo echo answered true true
	// demo crash unknown false true
}
