package main

import (
	"context"
	"errors"
	"os"
	"os/exec"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// mcpgoDriver calls through mark3labs/mcp-go.
type mcpgoDriver struct {
	t   target
	c   *client.Client
	cmd *exec.Cmd // nil over HTTP
}

func newMCPGoDriver(ctx context.Context, t target) (driver, error) {
	var c *client.Client
	var cmd *exec.Cmd
	var err error
	if t.url != "" {
		if c, err = client.NewStreamableHttpClient(t.url); err == nil {
			err = c.Start(ctx)
		}
	} else {
		c, err = client.NewStdioMCPClientWithOptions(t.command, t.env, t.args, transport.WithCommandFunc(
			func(ctx context.Context, command string, env, args []string) (*exec.Cmd, error) {
				cmd = exec.CommandContext(ctx, command, args...)
				cmd.Env = append(os.Environ(), env...)
				return cmd, nil
			}))
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
	return &mcpgoDriver{t: t, c: c, cmd: cmd}, nil
}

func (a *mcpgoDriver) name() string { return clientMCPGo }

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

func (a *mcpgoDriver) list(ctx context.Context) (tools int, err error) {
	res, err := a.c.ListTools(ctx, mcp.ListToolsRequest{})
	if err != nil {
		return 0, err
	}
	return len(res.Tools), nil
}

func (a *mcpgoDriver) slow(ctx context.Context) error {
	_, err := a.call(ctx, a.t.slowTool, a.t.slowArgs)
	return err
}

func (a *mcpgoDriver) kill() error { return a.cmd.Process.Kill() }

func (a *mcpgoDriver) close() { _ = a.c.Close() }
