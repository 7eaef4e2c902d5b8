package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/control"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/plaintext"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/monitor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/web/api"
)

type restartCmd struct {
	Servers []string `arg:"" help:"Names of the servers." complete:"server"`
	Drain   bool     `help:"Wait until the servers have no calls in flight, for 30 seconds at most. Without this flag a restart ends these calls; on a terminal it asks before."`
}

type restarted struct {
	Server  string           `json:"server"`
	State   supervisor.State `json:"state"`
	PID     int              `json:"pid,omitempty"`
	TookMs  int64            `json:"tookMs"`
	Message string           `json:"message,omitempty"`
}

// Run implements kong's command. It restarts all servers, and then waits for all.
func (cmd *restartCmd) Run(inv *invocation) error {
	c, err := inv.AttachOnly("restart")
	if err != nil {
		return err
	}
	defer c.Stop()
	status, err := c.Status(inv.Context)
	if err != nil {
		return err
	}
	slices.Sort(cmd.Servers)
	names := slices.Compact(cmd.Servers)
	for _, name := range names { // all of them or none
		if !slices.Contains(status.Names, name) {
			return c.UnknownServer(name)
		}
	}
	if err := cmd.confirm(inv, c, names); err != nil {
		return err
	}
	restart := c.Restart
	if cmd.Drain {
		restart = c.RestartDrained
	}
	began := time.Now()
	for _, name := range names {
		if err := restart(inv.Context, name); err != nil {
			return err
		}
	}
	results := map[string]restarted{}
	err = inv.AwaitStatus(c, func(status api.Status) bool {
		for _, s := range status.Servers {
			if slices.Contains(names, s.Name) {
				results[s.Name] = resultOf(cli.StatusInConfigTerms(s), time.Since(began))
			}
		}
		return !slices.ContainsFunc(names, func(name string) bool { return servers.IsOnItsWay(results[name].State) })
	})
	if err != nil {
		return err
	}
	return inv.printRestarts(names, results)
}

// confirm asks on a terminal whether calls that were sent may end, and says so elsewhere.
func (cmd *restartCmd) confirm(inv *invocation, c *servers.Set, names []string) error {
	calls, err := c.Calls(inv.Context, math.MaxInt64)
	n := len(slices.DeleteFunc(calls.InFlight, func(call monitor.CallInFlight) bool {
		return call.Queued || !slices.Contains(names, call.Server)
	}))
	if err != nil || n == 0 || cmd.Drain {
		return err
	}
	inv.Warn("", "the restart ends %s in flight, which may have been executed; --drain waits for calls", display.Count(n, "call"))
	confirmed, err := inv.Confirm("Restart?")
	if err == nil && !confirmed {
		err = &cli.ExitError{Code: cli.ExitFailed, Report: cli.Report{Kind: mcpvisor.KindCanceled, Message: "nothing was restarted"}}
	}
	return err
}

func resultOf(s mcpvisor.ServerStatus, took time.Duration) restarted {
	r := restarted{Server: s.Name, State: s.State, TookMs: took.Milliseconds()}
	if s.Session != nil {
		r.PID = s.Session.PID
	}
	if s.State != supervisor.StateReady && s.LastCause != nil {
		r.Message = s.LastCause.Describe()
	}
	return r
}

func (inv *invocation) printRestarts(names []string, results map[string]restarted) error {
	var failure error
	var all []restarted
	for _, name := range names {
		r := results[name]
		all = append(all, r)
		if r.State != supervisor.StateReady {
			failure = &cli.ExitError{Code: cli.ExitUnavailable, Report: cli.Report{Kind: mcpvisor.KindUnavailable, Server: name,
				Message: fmt.Sprintf("server %s is %s after the restart: %s", name, r.State, r.Message)}}
			if r.Message == "" {
				failure = &cli.ExitError{Code: cli.ExitUnavailable, Report: cli.Report{Kind: mcpvisor.KindUnavailable, Server: name,
					Message: fmt.Sprintf("server %s is still %s; mcpvisor status shows when it is ready", name, r.State)}}
			}
			continue
		}
		if inv.JSON {
			continue
		}
		text := fmt.Sprintf("%s is ready after %s", name, plaintext.Duration(time.Duration(r.TookMs)*time.Millisecond))
		if r.PID != 0 {
			text += fmt.Sprintf(", pid %d", r.PID)
		}
		if _, err := fmt.Fprintln(inv.Out, text); err != nil {
			return err
		}
	}
	if inv.JSON {
		if err := cli.PrintJSON(inv.Out, map[string]any{"restarted": all}); err != nil {
			return err
		}
	}
	return failure
}

type reloadCmd struct {
	DryRun bool `help:"Show what would change, and change nothing."`
}

func (cmd *reloadCmd) Run(inv *invocation) error {
	c, err := inv.AttachOnly("reload")
	if err != nil {
		return err
	}
	defer c.Stop()
	answer, err := c.Reload(inv.Context, cmd.DryRun)
	switch {
	case err != nil:
		return err
	case answer.Problem != "":
		return cli.UsageError("%s; mcpvisor run (pid %d) keeps its servers as they are", answer.Problem, c.Run.PID)
	}
	if inv.JSON {
		err = cli.PrintJSON(inv.Out, answer)
	} else {
		err = inv.printReload(answer)
	}
	if answer.GatewayProblem != "" {
		inv.Warn("", "%s; what hosts are offered is kept", answer.GatewayProblem)
	}
	return errors.Join(err, reloadResult(answer))
}

func (inv *invocation) printReload(answer control.Reload) error {
	var rows [][]any
	for _, c := range answer.Changes {
		note := c.Reason
		if c.Error != "" {
			note = c.Error
		}
		rows = append(rows, []any{c.Server, string(c.Action), note})
	}
	if len(rows) > 0 {
		if err := inv.Table("SERVER\tCHANGE\tNOTE", rows); err != nil {
			return err
		}
	}
	text := fmt.Sprintf("%s unchanged", display.Count(answer.Unchanged, "server"))
	if !answer.DryRun {
		text += ", reloaded in " + plaintext.Duration(time.Duration(answer.TookMs)*time.Millisecond)
	}
	_, err := fmt.Fprintln(inv.Out, text)
	return err
}

// reloadResult is nil if every entry is usable and every change has succeeded.
func reloadResult(answer control.Reload) error {
	switch {
	case slices.ContainsFunc(answer.Changes, func(c control.Change) bool { return c.Error != "" }):
		return &cli.ExitError{Code: cli.ExitFailed}
	case answer.GatewayProblem != "" || slices.ContainsFunc(answer.Changes, func(c control.Change) bool { return c.Reason != "" }):
		return &cli.ExitError{Code: cli.ExitUnavailable}
	}
	return nil
}
