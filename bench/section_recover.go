package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// compareRecovery compares what follows a kill -9: how soon a call under way fails,
// and how soon a server answers again, its lists complete. The peers are restarted by
// hand, by a caller that knows at once what to do.
func compareRecovery(ctx context.Context) error {
	for _, t := range []target{stdioTarget("fast"), everythingTarget()} {
		if t.command == "" {
			continue
		}
		table := newTable("kill -9 of a server with a call under way: "+t.kind, append([]string{"server", "until"}, operationColumns...)...)
		n := max(7, *rounds)
		if t.kind == "fast" {
			n *= 5 // one takes less time than what the scheduler adds now and then
		}
		operations := []operation{
			{clientSDK, func(ctx context.Context) ([]measurement, error) { return recoverByHand(ctx, t, newSDKDriver) }},
			{clientMCPGo, func(ctx context.Context) ([]measurement, error) { return recoverByHand(ctx, t, newMCPGoDriver) }},
			{clientOurs, func(ctx context.Context) ([]measurement, error) { return recoverFacade(ctx, t, false) }},
			{clientStandby, func(ctx context.Context) ([]measurement, error) { return recoverFacade(ctx, t, true) }},
			{clientBare, func(context.Context) ([]measurement, error) { return recoverPipe(t, false) }},
			{clientBareStandby, func(context.Context) ([]measurement, error) { return recoverPipe(t, true) }},
		}
		if err := compareOperations(ctx, table, t.kind, n, []string{"the call failed", "ready again"}, operations...); err != nil {
			return err
		}
		if err := table.end(); err != nil {
			return err
		}
	}
	return nil
}

func elapsed(start time.Time) measurement { return measurement{Took: time.Since(start)} }

// settle is the time in which a call reaches its server before the server is killed.
const settle = 20 * time.Millisecond

// killable is a driver whose server can be killed during a call.
type killable interface {
	driver
	lister
	// slow calls a tool that does not answer.
	slow(ctx context.Context) error
	kill() error
}

func recoverByHand(ctx context.Context, t target, open openFunc) ([]measurement, error) {
	first, err := open(ctx, t)
	if err != nil {
		return nil, err
	}
	defer first.close()
	failed := make(chan time.Time, 1)
	go func() {
		if err := first.(killable).slow(ctx); err == nil {
			panic("a call outlived its server")
		}
		failed <- time.Now()
	}()
	time.Sleep(settle)
	start := time.Now()
	if err := first.(killable).kill(); err != nil {
		return nil, err
	}
	noticed := measurement{Took: (<-failed).Sub(start)}
	again, err := open(ctx, t)
	if err != nil {
		return nil, err
	}
	defer again.close()
	if n, err := again.(killable).list(ctx); err != nil || n == 0 {
		return nil, fmt.Errorf("%d tools: %w", n, err)
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
	noticed := measurement{Took: (<-failed).Sub(start)}
	if _, err := c.CallTool(ctx, "s/"+t.echoTool, map[string]any{t.echoArg: "x"}, facade.WithWaitReady()); err != nil {
		return nil, err
	}
	return []measurement{noticed, elapsed(start)}, nil
}

// recoverPipe is the floor: bare processes, and reads that end. It looks at nothing that a
// server sends. A standby is a process that has answered both requests before the kill.
func recoverPipe(t target, standby bool) ([]measurement, error) {
	first, err := startPipe(t)
	if err != nil {
		return nil, err
	}
	defer first.in.Close()
	start := func() (*barePipe, error) {
		p, err := startPipe(t)
		if err == nil {
			err = p.list()
		}
		return p, err
	}
	var again *barePipe
	if standby {
		if again, err = start(); err != nil {
			return nil, err
		}
	}
	time.Sleep(settle)
	began := time.Now()
	if err := first.cmd.Process.Kill(); err != nil {
		return nil, err
	}
	_, _ = io.Copy(io.Discard, first.lines)
	noticed := elapsed(began)
	_ = first.cmd.Wait()
	if !standby {
		if again, err = start(); err != nil {
			return nil, err
		}
	}
	defer again.close()
	_, err = again.ask(4, string(appendCall(nil, 3, t.echoTool, `{"`+t.echoArg+`":"x"}`)))
	return []measurement{noticed, elapsed(began)}, err
}
