package main

import (
	"bufio"
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"strings"

	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

type authorizeCmd struct {
	Server string `arg:"" help:"Server to authorize this program at; its entry has \"auth\"."`
	Open   bool   `help:"Open the address in a browser, too."`
	Again  bool   `help:"Authorize even if the server is ready."`
	Forget bool   `help:"Drop the stored tokens instead."`
}

// Run implements kong's command.
func (cmd *authorizeCmd) Run(inv *invocation) error {
	c, stop, err := inv.start(cmd.Server)
	if err != nil {
		return err
	}
	defer stop()
	if cmd.Forget {
		if err := c.ForgetAuthorization(inv.ctx, cmd.Server); err != nil {
			return err
		}
		return inv.printMessage("the authorization of %s is forgotten here; the server was not told", cmd.Server)
	}
	if s := c.Inspect(cmd.Server); s.State == supervisor.StateReady && !cmd.Again {
		return inv.printMessage("server %s is ready and needs no authorization; --again asks for one all the same", cmd.Server)
	}
	if err := cmd.authorize(inv, c.Client); err != nil {
		return err
	}
	if err := inv.awaitStarts(c); err != nil {
		return err
	}
	s := c.Inspect(cmd.Server)
	if s.State != supervisor.StateReady {
		return unavailableError(s, "server %s gave its authorization, and is not available: %s", cmd.Server, reason(s))
	}
	return inv.printMessage("authorized: server %s is ready, with %s", cmd.Server, display.Count(s.Catalog.Tools, "tool"))
}

// authorize prints the address and waits until the person has come back from it: in a
// browser on this machine, or with the address that a browser elsewhere shows.
func (cmd *authorizeCmd) authorize(inv *invocation, c *facade.Client) error {
	ctx, cancel := context.WithCancel(inv.ctx)
	defer cancel()
	done := make(chan error, 2)
	go func() {
		done <- c.Authorize(ctx, cmd.Server, func(url string) error {
			go cmd.readRedirect(ctx, inv, c, done)
			return cmd.showURL(inv, url)
		})
	}()
	return <-done
}

func (cmd *authorizeCmd) showURL(inv *invocation, url string) error {
	if inv.json {
		return printJSON(inv.out, map[string]string{"server": cmd.Server, "authorize": url})
	}
	fmt.Fprintf(inv.out, "Open this address and consent:\n\n%s\n\n", display.Text(url))
	fmt.Fprintln(inv.out, "If your browser is on another machine, paste here the address that it ends at.")
	if cmd.Open {
		if err := openBrowser(url); err != nil {
			inv.warn(cmd.Server, "no browser could be opened: %v", err)
		}
	}
	return nil
}

// readRedirect takes an address that somebody pastes.
func (cmd *authorizeCmd) readRedirect(ctx context.Context, inv *invocation, c *facade.Client, done chan<- error) {
	lines := bufio.NewScanner(inv.in)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || ctx.Err() != nil {
			continue
		}
		if !strings.Contains(line, "state=") {
			inv.warn(cmd.Server, "that is not the address that the browser ends at; it begins with http and holds \"state=\"")
			continue
		}
		done <- c.FinishAuthorization(ctx, cmd.Server, line)
		return
	}
}

// openBrowser starts the browser of the desktop.
func openBrowser(url string) error {
	command := []string{"xdg-open", url}
	switch runtime.GOOS {
	case "darwin":
		command[0] = "open"
	case "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler", url}
	}
	p := exec.Command(command[0], command[1:]...)
	if err := p.Start(); err != nil {
		return err
	}
	go func() { _ = p.Wait() }()
	return nil
}

// printMessage prints one line for people.
func (inv *invocation) printMessage(format string, args ...any) error {
	if inv.json {
		return printJSON(inv.out, map[string]string{"message": fmt.Sprintf(format, args...)})
	}
	_, err := fmt.Fprintf(inv.out, format+"\n", args...)
	return err
}
