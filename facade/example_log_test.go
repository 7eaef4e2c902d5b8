package facade_test

import (
	"context"
	"log/slog"
	"os"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

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
