package main

import (
	"context"
	"errors"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
)

// mcpgoDriver calls through mark3labs/mcp-go.
type mcpgoDriver struct {
	t target
	c *client.Client
}

func newMCPGoDriver(ctx context.Context, t target) (driver, error) {
	var c *client.Client
	var err error
	if t.url != "" {
		if c, err = client.NewStreamableHttpClient(t.url); err == nil {
			err = c.Start(ctx)
		}
	} else {
		c, err = client.NewStdioMCPClient(t.command, t.env, t.args...)
	}
	if err != nil {
		return nil, err
	}
	var init mcp.InitializeRequest
	init.Params.ProtocolVersion = "2025-11-25"
	init.Params.ClientInfo = mcp.Implementation{Name: "bench", Version: "1"}
	if _, err := c.Initialize(ctx, init); err != nil {
		_ = c.Close()
		return nil, err
	}
	return &mcpgoDriver{t: t, c: c}, nil
}

func (a *mcpgoDriver) name() string { return "mcp-go" }

func (a *mcpgoDriver) call(ctx context.Context, tool string, args map[string]any) (string, error) {
	var q mcp.CallToolRequest
	q.Params.Name, q.Params.Arguments = tool, args
	res, err := a.c.CallTool(ctx, q)
	if err != nil {
		return "", err
	}
	if len(res.Content) == 1 {
		if text, ok := res.Content[0].(mcp.TextContent); ok {
			return text.Text, nil
		}
	}
	return "", errors.New("no text")
}

func (a *mcpgoDriver) echo(ctx context.Context, text string) (string, error) {
	return a.call(ctx, a.t.echoTool, map[string]any{a.t.echoArg: text})
}

func (a *mcpgoDriver) blob(ctx context.Context, size int) (string, error) {
	return a.call(ctx, "blob", map[string]any{"size": size})
}

func (a *mcpgoDriver) close() { _ = a.c.Close() }
