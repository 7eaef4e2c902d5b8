package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/attach"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/control"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/plaintext"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/internal/backoff"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/web/api"
)

const followInterval = 250 * time.Millisecond

type logsCmd struct {
	Server string `arg:"" optional:"" help:"Name of the server (default: all that are processes, each line after the name of its server)." complete:"server"`
	Follow bool   `help:"Print new lines as they come, also those of its next processes, until interrupted." short:"f"`
	Lines  int    `help:"How many of the last lines of each server to print; 0 for all that are kept." short:"n" default:"0" placeholder:"N"`
}

func (cmd *logsCmd) Run(inv *invocation, c *servers.Set) error {
	printers, err := cmd.printers(inv, c)
	if err != nil {
		return err
	}
	for _, p := range printers {
		if err := p.printKept(cmd.Lines); err != nil {
			return err
		}
	}
	if !cmd.Follow {
		return nil
	}
	for backoff.Sleep(inv.Context, followInterval) == nil {
		for _, p := range printers {
			next, err := p.next(c)
			switch {
			case inv.Context.Err() != nil: // the user has ended it
				return nil //nolint:nilerr // it is no failure
			case errors.Is(err, attach.ErrNotRunning), errors.Is(err, mcpvisor.ErrUnavailable), errors.Is(err, mcpvisor.ErrUnknownServer):
				inv.Note("mcpvisor run has ended") // or is ending, and has removed the server
				return nil
			case err != nil:
				return err
			}
			if err := p.printNew(next); err != nil {
				return err
			}
		}
	}
	return nil
}

func (cmd *logsCmd) printers(inv *invocation, c *servers.Set) (all []*linePrinter, err error) {
	names := []string{cmd.Server}
	if cmd.Server == "" {
		status, err := c.Status(inv.Context)
		if err != nil {
			return nil, err
		}
		names = status.Names
	}
	width := 0
	for _, name := range names {
		server, err := c.Described(inv.Context, name)
		switch {
		case err != nil:
			return nil, err
		case server.Status.Transport == "stdio":
			p := &linePrinter{inv: inv, server: name, stderr: api.Stderr{ServerStderr: server.Stderr}}
			if server.Stderr.Total == 0 {
				p.earlier, p.of = stderrOf(&server, time.Now())
			}
			all = append(all, p)
			width = max(width, len(name))
		case cmd.Server != "" && slices.ContainsFunc(c.Run.Unusable, func(u control.Unusable) bool { return u.Name == name }):
			return nil, c.UnknownServer(name)
		case cmd.Server != "":
			return nil, cli.UsageError("server %s is reached over %s and has no stderr here", name, server.Status.Transport)
		}
	}
	if len(all) == 0 {
		return nil, cli.UsageError("no server of this configuration is a process, so none has a stderr here")
	}
	for _, p := range all {
		if cmd.Server == "" {
			p.prefix = fmt.Sprintf("%-*s  ", width, p.server)
		}
	}
	return all, nil
}

type linePrinter struct {
	inv    *invocation
	server string
	prefix string     // before each line
	stderr api.Stderr // what was read last; Total lines are printed

	// While the latest process has written nothing, these are the lines that an earlier one has left, and which that is.
	earlier []string
	of      string
}

// next reads the lines after those that were read last, or all of a new process.
func (p *linePrinter) next(c *servers.Set) (api.Stderr, error) {
	next, err := c.Stderr(p.inv.Context, p.server, p.stderr.Total)
	if err == nil && next.Epoch != p.stderr.Epoch {
		next, err = c.Stderr(p.inv.Context, p.server, 0)
	}
	return next, err
}

// printKept prints the last lines that are kept, or all with 0.
func (p *linePrinter) printKept(last int) error {
	s := p.stderr
	if len(p.earlier) > 0 {
		p.inv.Note("%s--- the last lines%s ---", p.prefix, p.of)
		s.Lines = p.earlier
	}
	kept := int64(len(s.First) + len(s.Lines))
	lines := slices.Concat(s.First, s.Lines)
	if last > 0 && len(lines) > last {
		return p.printLines(lines[len(lines)-last:])
	}
	if s.Total > kept && len(s.First) > 0 {
		if err := p.printLines(s.First); err != nil {
			return err
		}
		p.inv.Note("%s... %s not kept", p.prefix, display.Count(s.Total-kept, "line"))
		lines = s.Lines
	}
	return p.printLines(lines)
}

func (p *linePrinter) printNew(next api.Stderr) error {
	if next.Epoch != p.stderr.Epoch {
		p.inv.Note("%s--- start %d, pid %d ---", p.prefix, next.Epoch, next.PID)
	}
	if next.Dropped > 0 {
		p.inv.Note("%s... %s not kept", p.prefix, display.Count(next.Dropped, "line"))
	}
	p.stderr = next
	return p.printLines(next.Lines)
}

func (p *linePrinter) printLines(lines []string) error {
	for _, line := range lines {
		text := p.prefix + display.Line(line)
		if p.inv.JSON {
			data, err := json.Marshal(map[string]any{"server": p.server, "epoch": p.stderr.Epoch, "line": line})
			if err != nil {
				return err
			}
			text = plaintext.JSON(string(data))
		}
		if _, err := fmt.Fprintln(p.inv.Out, text); err != nil {
			return err
		}
	}
	return nil
}
