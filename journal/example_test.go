package journal_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/journal"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// A host makes a call and ends. The next host makes the same call, and gets the result of the
// first one.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "journal")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	host := func() (*mcp.CallToolResult, error) {
		ctx := context.Background()
		calls, err := journal.Open(filepath.Join(dir, "calls.db"), journal.Options{})
		if err != nil {
			return nil, err
		}
		defer func() { _ = calls.Close() }()
		client, err := facade.New(facade.WithJournal(calls, mcpvisor.JournalKeepAll))
		if err != nil {
			return nil, err
		}
		defer func() { _ = client.Close(ctx) }()
		server := mcptest.InMemory(mcptest.Script{StateDir: dir, Tools: []mcptest.ToolDef{{Name: "charge", As: "count"}}})
		if err := client.Register(ctx, mcpvisor.ServerSpec{Name: "shop", InMemory: server}); err != nil {
			return nil, err
		}
		return client.CallTool(ctx, "shop/charge", map[string]any{"key": "4711"}, facade.WithKey("order-4711"))
	}
	for range 2 {
		result, err := host()
		if err != nil {
			panic(err)
		}
		fmt.Println(result.Content[0].(*mcp.TextContent).Text)
	}
	// Output:
	// {"executions":1,"key":"4711"}
	// {"executions":1,"key":"4711"}
}
