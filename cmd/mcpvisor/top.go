package main

import (
	"context"
	"errors"
	"os"

	"golang.org/x/term"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/attach"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/control"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/top"
	"github.com/mcpvisor/mcpvisor/facade"
)

type topCmd struct{}

// Run implements kong's command. Without a terminal it prints the table of status.
func (topCmd) Run(inv *invocation) error {
	in, out, ok := inv.terminal()
	if !ok || inv.JSON {
		return new(statusCmd).Run(inv)
	}
	c, err := inv.attach()
	title := inv.Sources.String() + ", attached"
	if errors.Is(err, attach.ErrNotRunning) {
		title = inv.Sources.String() + ", own copies"
		c, err = inv.superviseCopies()
	}
	if err != nil {
		return err
	}
	defer c.stop()
	return top.Run(inv.Context, c, top.Options{Title: title, Text: cli.ConfigTerms}, in, out)
}

// terminal returns stdin and stdout if both are a terminal.
func (inv *invocation) terminal() (in, out *os.File, ok bool) {
	in, isFile := inv.In.(*os.File)
	out, shown := inv.Out.(*os.File)
	return in, out, isFile && shown && term.IsTerminal(int(in.Fd())) && term.IsTerminal(int(out.Fd()))
}

// superviseCopies starts copies of all servers with their own policies, as `mcpvisor run`
// does, and does not wait for them.
func (inv *invocation) superviseCopies() (*session, error) {
	file, err := inv.loadConfig()
	if err != nil {
		return nil, err
	}
	specs := file.Specs()
	inv.warnProblems(file, specs)
	if len(specs) == 0 {
		return nil, noServerError(file)
	}
	c, err := facade.New()
	if err != nil {
		return nil, err
	}
	stop := func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			inv.Warn("", "mcpvisor: %v", err)
		}
	}
	h, err := control.New(c, control.Info{}, specs...)
	if err != nil {
		stop()
		return nil, err
	}
	// The view shows the starts; an error says only that the command was interrupted.
	applied := make(chan struct{})
	go func() {
		defer close(applied)
		_ = c.Apply(inv.Context, specs)
	}()
	return &session{Client: attach.InProcess(h), stop: func() {
		stop()
		<-applied
	}}, nil
}
