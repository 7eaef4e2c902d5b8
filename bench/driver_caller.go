package main

import (
	"context"
	"encoding/json"
)

// callerDriver makes what a caller makes, and calls nothing: the arguments, and the text
// that it compares the answer with. What is measured of it is not the client's.
type callerDriver struct {
	t   target
	raw bool
}

var (
	sinkArgs map[string]any
	sinkRaw  json.RawMessage
)

func (a *callerDriver) name() string { return "caller" }

func (a *callerDriver) echo(_ context.Context, text string) (string, error) {
	if a.raw {
		sinkRaw = rawArgs(a.t, text)
	} else {
		sinkArgs = map[string]any{a.t.echoArg: text}
	}
	return a.t.expect(text), nil
}

func (a *callerDriver) blob(_ context.Context, size int) (string, error) { return "", nil }

func (a *callerDriver) close() {}

// callerCost returns the allocations and bytes per call that are the caller's own.
func callerCost(ctx context.Context, t target, raw bool) (allocs, bytes float64, err error) {
	const calls = 4096
	a := &callerDriver{t: t, raw: raw}
	m, err := counted(func() error {
		for n := range calls {
			if _, err := echoOnce(ctx, a, t, 7, n); err != nil {
				return err
			}
		}
		return nil
	})
	return m.allocs / calls, m.bytes / calls, err
}
