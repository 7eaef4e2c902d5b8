package main

import (
	"context"
	"errors"
	"os"
	"os/exec"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// sdkDriver calls through a bare go-sdk session, as its documentation shows it.
type sdkDriver struct {
	t       target
	session *mcp.ClientSession
	cmd     *exec.Cmd // nil over HTTP
}

func newSDKDriver(ctx context.Context, t target) (driver, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	var transport mcp.Transport
	var cmd *exec.Cmd
	if t.url != "" {
		transport = &mcp.StreamableClientTransport{Endpoint: t.url}
	} else {
		cmd = exec.Command(t.command, t.args...)
		cmd.Env = append(os.Environ(), t.env...)
		transport = &mcp.CommandTransport{Command: cmd}
	}
	session, err := client.Connect(ctx, transport, nil)
	if err != nil {
		return nil, err
	}
	return &sdkDriver{t: t, session: session, cmd: cmd}, nil
}

func (a *sdkDriver) name() string { return clientSDK }

func (a *sdkDriver) call(ctx context.Context, tool string, args map[string]any) (string, error) {
	res, err := a.session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return "", err
	}
	return textOf(res)
}

func textOf(res *mcp.CallToolResult) (string, error) {
	if len(res.Content) != 1 {
		return "", errors.New("no single content")
	}
	text, ok := res.Content[0].(*mcp.TextContent)
	if !ok {
		return "", errors.New("no text")
	}
	return text.Text, nil
}

func (a *sdkDriver) echo(ctx context.Context, text string) (string, error) {
	return a.call(ctx, a.t.echoTool, map[string]any{a.t.echoArg: text})
}

func (a *sdkDriver) blob(ctx context.Context, size int) (string, error) {
	return a.call(ctx, "blob", map[string]any{"size": size})
}

func (a *sdkDriver) list(ctx context.Context) (tools int, err error) {
	for _, err := range a.session.Tools(ctx, nil) {
		if err != nil {
			return 0, err
		}
		tools++
	}
	return tools, nil
}

func (a *sdkDriver) slow(ctx context.Context) error {
	_, err := a.session.CallTool(ctx, &mcp.CallToolParams{Name: a.t.slowTool, Arguments: a.t.slowArgs})
	return err
}

func (a *sdkDriver) kill() error { return a.cmd.Process.Kill() }

func (a *sdkDriver) close() { _ = a.session.Close() }
