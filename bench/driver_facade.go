package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unsafe"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// facadeDriver calls through mcpvisor with default timeouts and limits: CallTool, or
// CallToolRaw.
type facadeDriver struct {
	t    target
	c    *facade.Client
	raw  bool
	tool string
}

func newFacadeDriver(ctx context.Context, t target) (driver, error) { return newFacade(ctx, t, false) }
func newRawDriver(ctx context.Context, t target) (driver, error)    { return newFacade(ctx, t, true) }

func spec(name string, t target) mcpvisor.ServerSpec {
	s := mcpvisor.ServerSpec{Name: name, Policy: supervisor.NoRetry()}
	if t.url != "" {
		s.HTTP = &mcpvisor.HTTP{URL: t.url}
		return s
	}
	env := map[string]string{}
	for _, kv := range t.env {
		k, v, _ := strings.Cut(kv, "=")
		env[k] = v
	}
	s.Stdio = &mcpvisor.Stdio{Command: t.command, Args: t.args, Env: env}
	return s
}

func newFacade(ctx context.Context, t target, raw bool) (driver, error) {
	return newFacadeWith(ctx, t, raw, mcpvisor.EraAuto)
}

func newFacadeWith(ctx context.Context, t target, raw bool, era mcpvisor.Era, opts ...facade.Option) (*facadeDriver, error) {
	c, err := facade.New(opts...)
	if err != nil {
		return nil, err
	}
	s := spec("s", t)
	s.Era = era
	if err := c.Register(ctx, s); err != nil {
		_ = c.Close(context.WithoutCancel(ctx))
		return nil, err
	}
	return &facadeDriver{t: t, c: c, raw: raw, tool: "s/" + t.echoTool}, nil
}

func (a *facadeDriver) name() string {
	if a.raw {
		return clientRaw
	}
	return clientOurs
}

func (a *facadeDriver) call(ctx context.Context, tool string, args map[string]any) (string, error) {
	res, err := a.c.CallTool(ctx, tool, args)
	if err != nil {
		return "", err
	}
	return textOf(res)
}

// rawArgs is the arguments of an echo, as JSON.
func rawArgs(t target, text string) []byte {
	args := make([]byte, 0, len(text)+len(t.echoArg)+8)
	return append(append(append(append(append(args, `{"`...), t.echoArg...), `":"`...), text...), `"}`...)
}

// rawText returns the text of a result that holds one text without escapes.
func rawText(raw json.RawMessage) (string, error) {
	const mark = `"text":"`
	i := bytes.Index(raw, []byte(mark))
	if i < 0 {
		return "", fmt.Errorf("no text in %.80q", raw)
	}
	text := raw[i+len(mark):]
	text = text[:bytes.IndexByte(text, '"')]
	return unsafe.String(unsafe.SliceData(text), len(text)), nil // the bytes do not change, so that no copy is needed
}

func (a *facadeDriver) echo(ctx context.Context, text string) (string, error) {
	if !a.raw {
		return a.call(ctx, a.tool, map[string]any{a.t.echoArg: text})
	}
	raw, err := a.c.CallToolRaw(ctx, a.tool, rawArgs(a.t, text))
	if err != nil {
		return "", err
	}
	return rawText(raw)
}

func (a *facadeDriver) blob(ctx context.Context, size int) (string, error) {
	if !a.raw {
		return a.call(ctx, "s/blob", map[string]any{"size": size})
	}
	raw, err := a.c.CallToolRaw(ctx, "s/blob", []byte(`{"size":`+strconv.Itoa(size)+`}`))
	if err != nil {
		return "", err
	}
	return rawText(raw)
}

func (a *facadeDriver) close() { _ = a.c.Close(context.Background()) }
