package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

type authorizeCmd struct {
	Server string `arg:"" help:"Server to authorize this program at. Its entry has \"auth\"." complete:"server"`
	Open   bool   `help:"Open the URL in a browser, too."`
	Device bool   `help:"Log in by a code on any device, without a browser on this machine."`
	Again  bool   `help:"Authorize even if the server is ready."`
	Forget bool   `help:"Delete the stored tokens instead."`
}

func (cmd *authorizeCmd) Run(inv *invocation) error {
	running := inv.BesideRun("authorize starts a copy of the server, because it must ask the user")
	if running != nil {
		defer running.Stop()
	}
	c, stop, err := inv.Start(cmd.Server)
	if err != nil {
		return err
	}
	defer stop()
	if cmd.Forget {
		if err := c.ForgetAuthorization(inv.Context, cmd.Server); err != nil {
			return err
		}
		return inv.printMessage("the stored authorization of %s is deleted; the server was not notified", cmd.Server)
	}
	if s := c.ServerStatus(cmd.Server); s.State == supervisor.StateReady && !cmd.Again {
		return inv.printMessage("server %s is ready and needs no authorization; use --again to authorize anyway", cmd.Server)
	}
	if err := cmd.authorize(inv, c.Client); err != nil {
		return err
	}
	if err := inv.AwaitStarts(c); err != nil {
		return err
	}
	s := c.ServerStatus(cmd.Server)
	if s.State != supervisor.StateReady {
		return cli.UnavailableError(s, "server %s is authorized and not available: %s", cmd.Server, inv.Reason(s))
	}
	if err := inv.printMessage("authorized: server %s is ready, with %s", cmd.Server, display.Count(s.Catalog.Tools, "tool")); err != nil {
		return err
	}
	return cmd.restart(inv, running)
}

// restart lets the server of `mcpvisor run` use the new tokens. running may be nil.
func (cmd *authorizeCmd) restart(inv *invocation, running *servers.Set) error {
	if running == nil || !slices.Contains(running.Run.Servers, cmd.Server) {
		return nil
	}
	if err := running.Restart(inv.Context, cmd.Server, true); err != nil {
		return fmt.Errorf("mcpvisor run (pid %d) does not use the new authorization yet; run mcpvisor restart %s: %w", running.Run.PID, cmd.Server, err)
	}
	inv.Note("mcpvisor run (pid %d) restarts server %s with it", running.Run.PID, cmd.Server)
	return nil
}

// authorize prints the authorization URL and waits for the redirect that follows the
// user's consent. It comes from a browser on this machine, or the user pastes the
// URL that a browser on another machine shows.
func (cmd *authorizeCmd) authorize(inv *invocation, c *facade.Client) error {
	ctx, cancel := context.WithCancel(inv.Context)
	defer cancel()
	if cmd.Device {
		return c.AuthorizeDevice(ctx, cmd.Server, func(login mcpvisor.DeviceLogin) error { return cmd.showLogin(inv, login) })
	}
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
	if inv.JSON {
		return cli.PrintJSON(inv.Out, map[string]string{"server": cmd.Server, "authorize": url})
	}
	fmt.Fprintf(inv.Out, "Open this URL and consent:\n\n%s\n\n", display.Text(url))
	fmt.Fprintln(inv.Out, "If your browser is on another machine, paste here the URL that it ends at.")
	cmd.open(inv, url)
	return nil
}

// showLogin prints a login that the user completes on any device.
func (cmd *authorizeCmd) showLogin(inv *invocation, login mcpvisor.DeviceLogin) error {
	if inv.JSON {
		return cli.PrintJSON(inv.Out, map[string]string{"server": cmd.Server, "authorize": login.URL, "code": login.Code,
			"complete": login.CompleteURL, "expires": login.Expires.Format(time.RFC3339)})
	}
	fmt.Fprintf(inv.Out, "Open this URL on any device:\n\n%s\n\nand enter the code %s before %s.\n", display.Text(login.URL),
		display.Text(login.Code), login.Expires.Format(time.TimeOnly))
	cmd.open(inv, cmp.Or(login.CompleteURL, login.URL))
	return nil
}

// open opens the URL in a browser if the user wants that.
func (cmd *authorizeCmd) open(inv *invocation, url string) {
	if !cmd.Open {
		return
	}
	if err := openBrowser(url); err != nil {
		inv.Warn(cmd.Server, "no browser could be opened, so open the URL by hand: %v", err)
	}
}

// readRedirect reads the URL that the user pastes.
func (cmd *authorizeCmd) readRedirect(ctx context.Context, inv *invocation, c *facade.Client, done chan<- error) {
	lines := bufio.NewScanner(inv.In)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || ctx.Err() != nil {
			continue
		}
		if !strings.Contains(line, "state=") {
			inv.Warn(cmd.Server, "that is not the URL that the browser ends at; it begins with http and contains \"state=\"")
			continue
		}
		done <- c.FinishAuthorization(ctx, cmd.Server, line)
		return
	}
}

// openBrowser opens a URL in the default browser of the desktop.
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

func (inv *invocation) printMessage(format string, args ...any) error {
	if inv.JSON {
		return cli.PrintJSON(inv.Out, map[string]string{"message": fmt.Sprintf(format, args...)})
	}
	_, err := fmt.Fprintf(inv.Out, format+"\n", args...)
	return err
}
