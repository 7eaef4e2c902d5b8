package main

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/mcpvisor/mcpvisor/bench/internal/fast"
)

// driver is one MCP client under test. Each driver of a round has a server of its own, of
// the same kind, and every answer is checked.
type driver interface {
	name() string
	// echo returns the text that the server gave back.
	echo(ctx context.Context, text string) (string, error)
	// blob returns a text of that size.
	blob(ctx context.Context, size int) (string, error)
	close()
}

// lister is a driver that can list the tools of its server.
type lister interface {
	list(ctx context.Context) (tools int, err error)
}

// target is the server that a driver connects to.
type target struct {
	kind    string // for the report
	command string
	args    []string
	env     []string
	url     string
	// echoTool is the name of the tool that returns its argument, echoArg that argument.
	echoTool, echoArg string
	// slowTool does not answer during a measurement.
	slowTool string
	slowArgs map[string]any
	// reply is the format of the answer to an echo; empty means the text itself.
	reply string
}

func (t target) expect(text string) string {
	if t.reply == "" {
		return text
	}
	return fmt.Sprintf(t.reply, text)
}

// checkEcho compares an answer with the expected one.
func checkEcho(a driver, t target, text, got string) error {
	if want := t.expect(text); got != want {
		return fmt.Errorf("%s answered %.60q, want %.60q", a.name(), got, want)
	}
	return nil
}

func checkBlob(a driver, size int, got string) error {
	if len(got) != size || !strings.HasSuffix(got, suffix(size)) {
		return fmt.Errorf("%s returned %d bytes, want %d", a.name(), len(got), size)
	}
	return nil
}

var suffixes sync.Map

// suffix is the end of a blob of that size, as the servers make it.
func suffix(size int) string {
	if s, ok := suffixes.Load(size); ok {
		return s.(string)
	}
	all := fast.Blob(size)
	s := strings.Clone(all[max(0, len(all)-32):])
	suffixes.Store(size, s)
	return s
}
