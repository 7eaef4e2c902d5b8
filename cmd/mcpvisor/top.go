package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"

	"golang.org/x/term"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/attach"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/top"
)

type topCmd struct{}

// Run implements kong's command. Without a terminal it prints the table of status.
func (topCmd) Run(inv *invocation) error {
	in, out, ok := inv.terminal()
	if !ok || inv.JSON {
		return new(statusCmd).Run(inv)
	}
	c, err := inv.Attach()
	title := inv.Sources.String() + ", attached"
	if errors.Is(err, attach.ErrNotRunning) {
		title = inv.Sources.String() + ", own copies"
		c, err = inv.Supervise()
	}
	if err != nil {
		return err
	}
	defer c.Stop()
	options := top.Options{Title: title, Page: c.Run.URL, Tool: c.SentTool}
	options.FormAdvice = inv.FormAdvice(true)
	options.Call = func(ctx context.Context, name string, arguments json.RawMessage) (json.RawMessage, error) {
		return c.CallTool(ctx, name, arguments, attach.CallOptions{})
	}
	return top.Run(inv.Context, c, options, in, out)
}

// terminal returns stdin and stdout if both are a terminal.
func (inv *invocation) terminal() (in, out *os.File, ok bool) {
	in, isFile := inv.In.(*os.File)
	out, shown := inv.Out.(*os.File)
	return in, out, isFile && shown && term.IsTerminal(int(in.Fd())) && term.IsTerminal(int(out.Fd()))
}
