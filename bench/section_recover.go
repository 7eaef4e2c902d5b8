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
			{"bare pipe (notice only)", func(context.Context) ([]measurement, error) { return detectOnPipe(t) }},
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

// detectOnPipe is the limit of what is possible: a bare process, and a read that ends.
func detectOnPipe(t target) ([]measurement, error) {
	cmd := exec.Command(t.command, t.args...)
	cmd.Env = append(os.Environ(), t.env...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	// The process must be up: one that is still starting ends faster.
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`
	if _, err := fmt.Fprintln(in, hello); err != nil {
		return nil, err
	}
	lines := bufio.NewReader(out)
	if _, err := readLine(lines); err != nil {
		return nil, err
	}
	time.Sleep(settle)
	start := time.Now()
	if err := cmd.Process.Kill(); err != nil {
		return nil, err
	}
	_, _ = io.Copy(io.Discard, lines)
	_ = cmd.Wait()
	r := elapsed(start)
	return []measurement{r, r}, nil
}
