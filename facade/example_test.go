package facade_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/mcptest/oauthtest"
	"github.com/mcpvisor/mcpvisor/oauth"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// newExampleClient returns a client with one server, "demo".
func newExampleClient(opts ...facade.Option) *facade.Client {
	return exampleClient(mcpvisor.ServerSpec{InMemory: mcptest.InMemory(mcptest.Script{})}, opts...)
}

// exampleClient returns a client with one server, "demo" by default.
func exampleClient(spec mcpvisor.ServerSpec, opts ...facade.Option) *facade.Client {
	if spec.Name == "" {
		spec.Name = "demo"
	}
	c, err := facade.New(opts...)
	if err != nil {
		panic(err)
	}
	if err := c.Register(context.Background(), spec); err != nil {
		panic(err)
	}
	return c
}

func Example() {
	ctx := context.Background()
	c, err := facade.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = c.Close(ctx) }()

	server := mcp.NewServer(&mcp.Implementation{Name: "greeter", Version: "1"}, nil)
	type args struct {
		Name string `json:"name"`
	}
	mcp.AddTool(server, &mcp.Tool{Name: "greet"}, func(_ context.Context, _ *mcp.CallToolRequest, a args) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "Hello " + a.Name}}}, nil, nil
	})
	if err := c.Register(ctx, mcpvisor.ServerSpec{Name: "hi", InMemory: facade.ServeInMemory(server)}); err != nil {
		fmt.Println(err)
		return
	}
	res, err := c.CallTool(ctx, "hi/greet", map[string]any{"name": "Ada"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(res.Content[0].(*mcp.TextContent).Text)
	// Output: Hello Ada
}

// A subprocess that is restarted 500 ms, 1 s and 2 s after its crashes.
func ExampleClient_Register() {
	ctx := context.Background()
	c, err := facade.New()
	if err != nil {
		panic(err)
	}
	defer func() { _ = c.Close(ctx) }()
	err = c.Register(ctx, mcpvisor.ServerSpec{
		Name:   "fs",
		Stdio:  &mcpvisor.Stdio{Command: "no-such-server", Args: []string{"/tmp"}},
		Policy: supervisor.Retry(3, 500*time.Millisecond),
	})
	fmt.Println(errors.Is(err, mcpvisor.ErrStart), c.Servers())
	// Output: true []
}

func ExampleClient_Register_several() {
	c := newExampleClient()
	defer func() { _ = c.Close(context.Background()) }()
	err := c.Register(context.Background(),
		mcpvisor.ServerSpec{Name: "a", InMemory: mcptest.InMemory(mcptest.Script{})},
		mcpvisor.ServerSpec{Name: "b", InMemory: mcptest.InMemory(mcptest.Script{})},
		mcpvisor.ServerSpec{Name: "c/d", InMemory: mcptest.InMemory(mcptest.Script{})},
	)
	fmt.Println(errors.Is(err, mcpvisor.ErrInvalid), c.Servers())
	// Output: true [a b demo]
}

func ExampleClient_CallTool() {
	c := newExampleClient()
	defer func() { _ = c.Close(context.Background()) }()
	res, err := c.CallTool(context.Background(), "demo/add", map[string]any{"a": 2, "b": 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(res.Content[0].(*mcp.TextContent).Text)

	_, err = c.CallTool(context.Background(), "demo/eccho", nil, facade.WithTimeout(time.Second))
	fmt.Println(err)
	// Output:
	// {"sum":5}
	// call demo/eccho: unknown tool; nothing was sent; did you mean demo/echo?
}

func ExampleClient_CallToolRaw() {
	c := newExampleClient()
	defer func() { _ = c.Close(context.Background()) }()
	raw, err := c.CallToolRaw(context.Background(), "demo/echo", json.RawMessage(`{"text":"as it is"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	var result struct{ Content []struct{ Text string } }
	fmt.Println(json.Unmarshal(raw, &result), result.Content[0].Text)
	// Output: <nil> as it is
}

func ExampleClient_CallToolForModel() {
	c := newExampleClient()
	defer func() { _ = c.Close(context.Background()) }()
	res := c.CallToolForModel(context.Background(), "demo/ecko", map[string]any{"text": "x"})
	fmt.Println(res.IsError, res.Content[0].(*mcp.TextContent).Text)
	// Output: true There is no tool demo/ecko. Did you mean demo/echo?
}

// A call that waits until its server is ready again.
func ExampleWithWaitReady() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c := exampleClient(mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{}), Policy: supervisor.Retry(3, 10*time.Millisecond)})
	defer func() { _ = c.Close(ctx) }()
	_, crashed := c.CallTool(ctx, "s/crash", nil)
	_, err := c.CallTool(ctx, "s/echo", map[string]any{"text": "x"}, facade.WithWaitReady())
	fmt.Println(errors.Is(crashed, mcpvisor.ErrCrashed), err)
	// Output: true <nil>
}

// A host that may no longer run a server, because it has lost the lease of its name, ends it at
// once. Registering it again ends the fence.
func ExampleClient_Fence() {
	client, err := facade.New()
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	defer client.Close(ctx)
	browser := mcpvisor.ServerSpec{Name: "browser", InMemory: mcptest.InMemory(mcptest.Script{}), Exclusive: true}
	if err := client.Register(ctx, browser); err != nil {
		panic(err)
	}

	err = client.Fence(ctx, "browser", "the lease is over")
	fmt.Println("fenced:", err == nil)
	_, err = client.CallTool(ctx, "browser/echo", map[string]any{"text": "hello"})
	fmt.Println(errors.Is(err, mcpvisor.ErrEvicted), err)
	fmt.Println("registered again:", client.Register(ctx, browser) == nil)

	// Output:
	// fenced: true
	// true call browser/echo: server evicted; nothing was sent: fenced: the lease is over; register it again
	// registered again: true
}

// A host asks its user before tools that may change something, and keeps an audit log.
func ExampleWithInterceptor() {
	ctx := context.Background()
	askUser := func(question string) bool { fmt.Println(question); return false }
	audit := func(ctx context.Context, call facade.ToolCall, next facade.CallNext) (facade.CallResult, error) {
		result, err := next(ctx, call)
		fmt.Printf("audit: %s %s: %v\n", call.Name(), call.Arguments, err)
		return result, err
	}
	confirm := func(ctx context.Context, call facade.ToolCall, next facade.CallNext) (facade.CallResult, error) {
		readOnly := call.Definition != nil && call.Definition.Annotations != nil && call.Definition.Annotations.ReadOnlyHint
		if !readOnly && !askUser("May "+call.Name()+" run?") {
			return facade.CallResult{}, errors.New("the user declined")
		}
		return next(ctx, call)
	}
	client := exampleClient(mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{})}, facade.WithInterceptor(audit), facade.WithInterceptor(confirm))
	defer func() { _ = client.Close(ctx) }()
	_, _ = client.CallTool(ctx, "s/echo", map[string]any{"text": "hello"})
	_, _ = client.CallTool(ctx, "s/count", map[string]any{"key": "k"})
	// Output:
	// audit: s/echo {"text":"hello"}: <nil>
	// May s/count run?
	// audit: s/count {"key":"k"}: the user declined
}

// What a model is given stays the same while a server is down.
func ExampleWithStickyTools() {
	ctx := context.Background()
	client := exampleClient(mcpvisor.ServerSpec{Name: "notes", InMemory: mcptest.InMemory(mcptest.Script{}),
		Policy: supervisor.Retry(5, time.Minute)}, facade.WithStickyTools())
	defer func() { _ = client.Close(ctx) }()
	_, _ = client.CallTool(ctx, "notes/crash", nil) // the server crashes
	tool, listed := client.Tool("notes/echo")
	fmt.Println(listed, tool.Unavailable)
	// Output: true true
}

// Wrong arguments are found before anything is sent.
func ExampleWithValidation() {
	ctx := context.Background()
	client := exampleClient(mcpvisor.ServerSpec{Name: "notes", InMemory: mcptest.InMemory(mcptest.Script{})}, facade.WithValidation())
	defer func() { _ = client.Close(ctx) }()
	_, err := client.CallTool(ctx, "notes/echo", map[string]any{"text": 7})
	var wrong *facade.ArgumentError
	if errors.As(err, &wrong) {
		fmt.Println(wrong.Path, wrong.Rule)
	}
	fmt.Println(err)
	// Output:
	// text type
	// call notes/echo: invalid; nothing was sent: argument text: it must be a string, and is an integer (type)
}

// An operator has looked into the ledger of the shop: the order was charged, although the host ended before the
// answer came.
func ExampleClient_ResolveKey() {
	key := mcpvisor.JournalKey{Key: "order-4711"}
	calls := &memoryJournal{entries: map[mcpvisor.JournalKey]mcpvisor.JournalEntry{
		key: {Key: key.Key, Server: "shop", Tool: "charge", State: mcpvisor.JournalSent, Updated: time.Now()}}}
	client, err := facade.New(facade.WithJournal(calls, mcpvisor.JournalKeepAll))
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	defer func() { _ = client.Close(ctx) }()

	entries, err := client.JournalEntries(ctx, key)
	if err != nil {
		panic(err)
	}
	err = client.ResolveKey(ctx, key, facade.KeyResolution{Seen: entries[0].Updated, By: "ada",
		Result: json.RawMessage(`{"content": [{"type": "text", "text": "charged, see entry 17"}]}`)})
	if err != nil {
		panic(err)
	}
	task, err := client.ResumeTask(ctx, key)
	if err != nil {
		panic(err)
	}
	result, err := task.WaitRaw(ctx)
	fmt.Println(string(result), err)
	// Output: {"content": [{"type": "text", "text": "charged, see entry 17"}]} <nil>
}

// With a standby a second instance of the server takes over as soon as the first one
// ends, long before the delay of the policy.
func ExampleClient_Register_standby() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	client, err := facade.New()
	if err != nil {
		panic(err)
	}
	defer func() { _ = client.Close(ctx) }()
	events := client.Watch(ctx, mcpvisor.EventStandby)
	err = client.Register(ctx, mcpvisor.ServerSpec{
		Name:     "demo",
		InMemory: mcptest.InMemory(mcptest.Script{}),
		Policy:   supervisor.Retry(3, time.Hour),
		Standby:  true,
	})
	if err != nil {
		panic(err)
	}
	fmt.Println((<-events).Epoch, "is the standby")

	_, err = client.CallTool(ctx, "demo/crash", nil)
	fmt.Println(errors.Is(err, mcpvisor.ErrCrashed))
	_, err = client.CallTool(ctx, "demo/echo", map[string]any{"text": "x"}, facade.WithWaitReady())
	status, _ := client.ServerStatus("demo")
	fmt.Println(err, status.Epoch, "is in service")
	// Output:
	// 2 is the standby
	// true
	// <nil> 2 is in service
}

// A server behind a transport of the go-sdk, here one in memory. Each start makes a new
// transport, so that a lost connection is replaced.
func ExampleClient_Register_transport() {
	ctx := context.Background()
	c, err := facade.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = c.Close(ctx) }()

	server := mcp.NewServer(&mcp.Implementation{Name: "clock", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "day"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "Monday"}}}, nil, nil
	})
	err = c.Register(ctx, mcpvisor.ServerSpec{
		Name: "clock",
		Transport: &mcpvisor.Transport{
			New: func(ctx context.Context) (mcp.Transport, error) {
				ours, theirs := mcp.NewInMemoryTransports()
				_, err := server.Connect(ctx, theirs, nil)
				return ours, err
			},
			Target: "the clock in this program",
		},
		Policy: supervisor.Retry(3, 500*time.Millisecond),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	res, err := c.CallTool(ctx, "clock/day", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(res.Content[0].(*mcp.TextContent).Text)
	// Output: Monday
}

// The log of the client goes to an slog logger, whose handler decides about levels and
// format.
func ExampleWithSlog() {
	withoutTimes := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "start" {
			return slog.Attr{}
		}
		return a
	}
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: withoutTimes}))

	ctx := context.Background()
	client, err := facade.New(facade.WithSlog(logger.With("component", "mcp")))
	if err != nil {
		panic(err)
	}
	if err := client.Register(ctx, mcpvisor.ServerSpec{Name: "demo", Era: mcpvisor.EraLegacy, InMemory: mcptest.InMemory(mcptest.Script{NoTools: true, NoResources: true, NoPrompts: true})}); err != nil {
		panic(err)
	}
	_ = client.Close(ctx)
	// Output:
	// level=INFO msg="demo registered" component=mcp server=demo event=registered epoch=1
	// level=INFO msg="demo ready: 0 tools, 0 resources, 0 prompts, protocol 2025-11-25, epoch 1" component=mcp server=demo event=ready epoch=1 tools=0
	// level=INFO msg="demo down: the client is closed" component=mcp server=demo event=down epoch=1 cause=requested reason="the client is closed"
	// level=INFO msg="demo unregistered" component=mcp server=demo event=unregistered epoch=1 cause=requested reason="the client is closed"
}

// A server that requires OAuth waits in the state unauthorized until the user has
// authorized the client. Calls fail at once meanwhile.
func ExampleClient_Authorize() {
	web := mcptest.NewHTTP(mcptest.Script{})
	defer web.Close()
	guard := oauthtest.NewServer(web.URL) // an authorization server in front of it
	defer guard.Close()

	ctx := context.Background()
	c := exampleClient(mcpvisor.ServerSpec{Name: "web", StartSupervised: true, HTTP: &mcpvisor.HTTP{
		URL:  guard.URL,
		Auth: &oauth.Config{Store: oauth.NewMemoryStore()}, // the default is files
	}})
	defer func() { _ = c.Close(ctx) }()
	err := c.WaitReady(ctx, "web")
	var required *mcpvisor.AuthRequired
	fmt.Println("authorization required:", errors.As(err, &required), required.Resource == guard.URL)

	err = c.Authorize(ctx, "web", func(url string) error {
		go func() { _, _ = consent(url, true) }() // the user opens it in a browser
		return nil
	})
	if err != nil {
		panic(err)
	}
	_, err = c.CallTool(ctx, "web/echo", map[string]any{"text": "hello"}, facade.WithWaitReady())
	fmt.Println("call:", err)
	// Output:
	// authorization required: true true
	// call: <nil>
}
