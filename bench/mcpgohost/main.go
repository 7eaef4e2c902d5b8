// Command mcpgohost is a host that makes calls in a storm, with the client of mark3labs/mcp-go. test/real
// runs it; test/real/hosts/host.mjs, which says what is printed, is the same with other clients.
//
//	mcpgohost http URL
//	mcpgohost stdio COMMAND ARGUMENT…
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

func main() {
	if err := run(context.Background(), os.Args[1], os.Args[2:]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, kind string, target []string) error {
	var c *client.Client
	var err error
	if kind == "http" {
		c, err = client.NewStreamableHttpClient(target[0], transport.WithContinuousListening())
	} else {
		c, err = client.NewStdioMCPClient(target[0], os.Environ(), target[1:]...)
	}
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	var changes atomic.Int64
	c.OnNotification(func(n mcp.JSONRPCNotification) {
		if n.Method == string(mcp.MethodNotificationToolsListChanged) {
			changes.Add(1)
		}
	})
	if kind == "http" { // over stdio it is started
		if err := c.Start(ctx); err != nil {
			return err
		}
	}
	var begin mcp.InitializeRequest
	begin.Params.ProtocolVersion = "2025-11-25"
	begin.Params.ClientInfo = mcp.Implementation{Name: "host-mcp-go", Version: "1"}
	if _, err := c.Initialize(ctx, begin); err != nil {
		return err
	}
	list := func() (string, error) {
		tools, err := c.ListTools(ctx, mcp.ListToolsRequest{})
		if err != nil {
			return "", err
		}
		text, err := json.Marshal(tools.Tools)
		return string(text), err
	}
	out := json.NewEncoder(os.Stdout)
	before, err := list()
	if err != nil {
		return err
	}
	_ = out.Encode(map[string]any{"tools": before})
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	for n := 0; ; n++ {
		select {
		case <-ended:
			after, err := list()
			if err != nil {
				return err
			}
			return out.Encode(map[string]any{"changes": changes.Load(), "tools": after})
		default:
		}
		key := fmt.Sprintf("mcp-go-%s-%d", kind, n)
		var call mcp.CallToolRequest
		call.Params.Name, call.Params.Arguments = "fixture__count", map[string]any{"key": key}
		if result, err := c.CallTool(ctx, call); err == nil {
			_ = out.Encode(map[string]any{"key": key, "result": result})
		} else {
			_ = out.Encode(map[string]any{"key": key, "error": err.Error()})
		}
	}
}
