package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// compareRecovery compares what follows a kill -9: how soon a call under way fails,
// and how soon a server answers again, its lists complete.
func compareRecovery(ctx context.Context) error {
	for _, t := range []target{stdioTarget("fast"), everythingTarget()} {
		if t.command == "" {
			continue
		}
		table := newTable("kill -9 of a server with a call under way: "+t.kind, "server", "until", "client", "ms", "× go-sdk", "KB allocated", "less")
		n := max(5, *rounds)
		drivers := []operation{
			{"go-sdk, by hand", func(ctx context.Context) ([]measurement, error) { return recoverSDK(ctx, t) }},
			{"mcpvisor", func(ctx context.Context) ([]measurement, error) { return recoverFacade(ctx, t, false) }},
			{"mcpvisor, standby", func(ctx context.Context) ([]measurement, error) { return recoverFacade(ctx, t, true) }},
			{"bare pipe", func(context.Context) ([]measurement, error) { return recoverPipe(t) }},
		}
		if err := compareOperations(ctx, table, t.kind, n, []string{"the call failed", "ready again"}, drivers...); err != nil {
			return err
		}
		if err := table.end(); err != nil {
			return err
		}
	}
	return nil
}

func elapsed(start time.Time) measurement { return measurement{took: time.Since(start)} }

// settle is the time in which a call reaches its server before the server is killed.
const settle = 20 * time.Millisecond

func recoverSDK(ctx context.Context, t target) ([]measurement, error) {
	cmd := exec.Command(t.command, t.args...)
	cmd.Env = append(os.Environ(), t.env...)
	client := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	failed := make(chan time.Time, 1)
	go func() {
		_, err := session.CallTool(ctx, &mcp.CallToolParams{Name: t.slowTool, Arguments: t.slowArgs})
		if err == nil {
			panic("a call outlived its server")
		}
		failed <- time.Now()
	}()
	time.Sleep(settle)
	start := time.Now()
	if err := cmd.Process.Kill(); err != nil {
		return nil, err
	}
	noticed := measurement{took: (<-failed).Sub(start)}
	again, err := newSDKDriver(ctx, t)
	if err != nil {
		return nil, err
	}
	defer again.close()
	tools := 0
	for _, err := range again.(*sdkDriver).session.Tools(ctx, nil) {
		if err != nil {
			return nil, err
		}
		tools++
	}
	if tools == 0 {
		return nil, errors.New("no tools")
	}
	if _, err := again.echo(ctx, "x"); err != nil {
		return nil, err
	}
	return []measurement{noticed, elapsed(start)}, nil
}

func recoverFacade(ctx context.Context, t target, standby bool) ([]measurement, error) {
	c, err := facade.New()
	if err != nil {
		return nil, err
	}
	defer c.Close(context.WithoutCancel(ctx))
	s := spec("s", t)
	s.Policy, s.Standby = supervisor.Retry(3, 0), standby
	if err := c.Register(ctx, s); err != nil {
		return nil, err
	}
	st, _ := c.ServerStatus("s")
	for standby && st.Standby == nil {
		time.Sleep(time.Millisecond)
		st, _ = c.ServerStatus("s")
	}
	failed := make(chan time.Time, 1)
	go func() {
		_, err := c.CallTool(ctx, "s/"+t.slowTool, t.slowArgs)
		if !errors.Is(err, mcpvisor.ErrCrashed) {
			panic(fmt.Sprint("a call outlived its server: ", err))
		}
		failed <- time.Now()
	}()
	time.Sleep(settle)
	start := time.Now()
	if err := syscall.Kill(st.Session.PID, syscall.SIGKILL); err != nil {
		return nil, err
	}
	noticed := measurement{took: (<-failed).Sub(start)}
	if _, err := c.CallTool(ctx, "s/"+t.echoTool, map[string]any{t.echoArg: "x"}, facade.WithWaitReady()); err != nil {
		return nil, err
	}
	return []measurement{noticed, elapsed(start)}, nil
}

// recoverPipe is the limit of what is possible: bare processes, and reads that end. It
// looks at nothing that a server sends.
func recoverPipe(t target) ([]measurement, error) {
	first, err := startPipe(t)
	if err != nil {
		return nil, err
	}
	defer first.in.Close()
	time.Sleep(settle)
	start := time.Now()
	if err := first.cmd.Process.Kill(); err != nil {
		return nil, err
	}
	_, _ = io.Copy(io.Discard, first.lines)
	_ = first.cmd.Wait()
	noticed := elapsed(start)
	again, err := startPipe(t)
	if err != nil {
		return nil, err
	}
	defer func() {
		_ = again.in.Close()
		_ = again.cmd.Wait()
	}()
	for _, line := range []string{
		`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" + `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`,
		`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"` + t.echoTool + `","arguments":{"` + t.echoArg + `":"x"}}}`,
	} {
		if _, err := fmt.Fprintln(again.in, line); err != nil {
			return nil, err
		}
		if _, err := readLine(again.lines); err != nil {
			return nil, err
		}
	}
	return []measurement{noticed, elapsed(start)}, nil
}

// barePipe is a process that has answered initialize.
type barePipe struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Reader
}

func startPipe(t target) (*barePipe, error) {
	cmd := exec.Command(t.command, t.args...)
	cmd.Env = append(os.Environ(), t.env...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &barePipe{cmd, in, bufio.NewReader(out)}
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`
	if _, err := fmt.Fprintln(in, hello); err != nil {
		return nil, err
	}
	_, err = readLine(p.lines)
	return p, err
}
