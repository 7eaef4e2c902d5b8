package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/attach"
	"github.com/mcpvisor/mcpvisor/internal/backoff"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/web"
)

// followInterval is how often a followed stderr is read.
const followInterval = 250 * time.Millisecond

type logsCmd struct {
	Server string `arg:"" help:"Name of the server." complete:"server"`
	Follow bool   `help:"Print new lines as they come, also those of its next processes, until interrupted." short:"f"`
	Lines  int    `help:"How many of the last lines to print; 0 for all that are kept." short:"n" default:"0" placeholder:"N"`
}

// Run implements kong's command.
func (cmd *logsCmd) Run(inv *invocation) error {
	c, err := inv.attachOnly("logs")
	if err != nil {
		return err
	}
	defer c.stop()
	server, err := c.described(inv.ctx, cmd.Server)
	if err != nil {
		return err
	}
	if server.Status.Transport != "stdio" {
		return usageError("server %s is reached over %s and has no stderr here", cmd.Server, server.Status.Transport)
	}
	p := &linePrinter{inv: inv, server: cmd.Server, stderr: web.Stderr{ServerStderr: server.Stderr}}
	if err := p.printKept(cmd.Lines); err != nil || !cmd.Follow {
		return err
	}
	for backoff.Sleep(inv.ctx, followInterval) == nil {
		next, err := c.Stderr(inv.ctx, cmd.Server, p.stderr.Total)
		if err == nil && next.Epoch != p.stderr.Epoch {
			next, err = c.Stderr(inv.ctx, cmd.Server, 0)
		}
		switch {
		case inv.ctx.Err() != nil:
			return nil
		case errors.Is(err, attach.ErrNotRunning), errors.Is(err, mcpvisor.ErrUnavailable), errors.Is(err, mcpvisor.ErrUnknownServer):
			inv.note("mcpvisor run has ended") // or is ending, and has removed the server
			return nil
		case err != nil:
			return err
		}
		if err := p.printNew(next); err != nil {
			return err
		}
	}
	return nil
}

// linePrinter prints the stderr of one server.
type linePrinter struct {
	inv    *invocation
	server string
	stderr web.Stderr // what was read last; Total lines are printed
}

// printKept prints the last lines that are kept, or all with 0.
func (p *linePrinter) printKept(last int) error {
	s := p.stderr
	kept := int64(len(s.First) + len(s.Lines))
	lines := slices.Concat(s.First, s.Lines)
	if last > 0 && len(lines) > last {
		return p.printLines(lines[len(lines)-last:])
	}
	if s.Total > kept && len(s.First) > 0 {
		if err := p.printLines(s.First); err != nil {
			return err
		}
		p.inv.note("... %s not kept", display.Count(s.Total-kept, "line"))
		lines = s.Lines
	}
	return p.printLines(lines)
}

// printNew prints the lines that were not printed yet.
func (p *linePrinter) printNew(next web.Stderr) error {
	if next.Epoch != p.stderr.Epoch {
		p.inv.note("--- start %d, pid %d ---", next.Epoch, next.PID)
	}
	if next.Dropped > 0 {
		p.inv.note("... %s not kept", display.Count(next.Dropped, "line"))
	}
	p.stderr = next
	return p.printLines(next.Lines)
}

func (p *linePrinter) printLines(lines []string) error {
	for _, line := range lines {
		var err error
		if p.inv.json {
			var data []byte
			data, err = json.Marshal(map[string]any{"server": p.server, "epoch": p.stderr.Epoch, "line": line})
			if err == nil {
				err = printRaw(p.inv.out, data)
			}
		} else {
			_, err = fmt.Fprintln(p.inv.out, display.Line(line))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
