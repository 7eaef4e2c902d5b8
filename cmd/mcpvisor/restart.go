package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
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

// restarted is what has become of a server that was restarted, stopped or started.
type restarted struct {
	Server  string           `json:"server"`
	State   supervisor.State `json:"state"`
	PID     int              `json:"pid,omitempty"`
	TookMs  int64            `json:"tookMs"`
	Message string           `json:"message,omitempty"`
}

// Run implements kong's command. It restarts all servers, and then waits for all.
func (cmd *restartCmd) Run(inv *invocation, c *servers.Set) error {
	slices.Sort(cmd.Servers)
	restart := func(name string) error { return c.Restart(inv.Context, name, cmd.Drain) }
	return inv.operate(c, "restart", "restarted", slices.Compact(cmd.Servers), !cmd.Drain, restart, func(s supervisor.State) bool { return s == supervisor.StateReady })
}

// operate does something with servers or groups of mcpvisor run: with each of names, in turn, or with none if one is not known.
// ends: it ends calls in flight, so the user is asked. Then operate waits until no start of the servers is under way, and prints
// what has become of each. It is an error if one is not as wanted.
func (inv *invocation) operate(c *servers.Set, verb, done string, names []string, ends bool, do func(name string) error, wanted func(supervisor.State) bool) error {
	of, err := serversOf(inv, c, names, verb != "restart")
	if err != nil {
		return err
	}
	if ends {
		if err := inv.confirmEnd(c, verb, done, of); err != nil {
			return err
		}
	}
	began := time.Now()
	for _, name := range names {
		if err := do(name); err != nil {
			return err
		}
	}
	results, err := inv.awaitStarts(c, of, began)
	if err != nil {
		return err
	}
	return inv.printResults(verb, done, results, wanted)
}

// awaitStarts waits until no start of the named servers is under way, and returns what has become of each, in the order
// of their names.
func (inv *invocation) awaitStarts(c *servers.Set, names []string, began time.Time) (results []restarted, err error) {
	err = inv.AwaitStatus(c, func(status api.Status) bool {
		var waits bool
		results = nil
		for _, s := range status.Servers {
			if slices.Contains(names, s.Name) {
				waits = waits || control.IsOnItsWay(&s, status.Servers)
				results = append(results, resultOf(s, status.Servers, time.Since(began)))
			}
		}
		return !waits
	})
	return results, err
}

// confirmEnd asks on a terminal whether calls of the named servers that were sent may end, and says so elsewhere.
func (inv *invocation) confirmEnd(c *servers.Set, verb, done string, names []string) error {
	calls, err := c.Calls(inv.Context, math.MaxInt64)
	n := len(slices.DeleteFunc(calls.InFlight, func(call monitor.CallInFlight) bool {
		return call.Queued || !slices.Contains(names, call.Server)
	}))
	if err != nil || n == 0 {
		return err
	}
	inv.Warn("", "the %s ends %s in flight, which may have been executed; --drain waits for calls", verb, display.Count(n, "call"))
	confirmed, err := inv.Confirm(strings.ToUpper(verb[:1]) + verb[1:] + "?")
	if err == nil && !confirmed {
		err = &cli.ExitError{Code: cli.ExitFailed, Report: cli.Report{Kind: mcpvisor.ErrCanceled, Message: "nothing was " + done}}
	}
	return err
}

func resultOf(s mcpvisor.ServerStatus, all []mcpvisor.ServerStatus, took time.Duration) restarted {
	r := restarted{Server: s.Name, State: s.State, TookMs: took.Milliseconds()}
	if s.Session != nil {
		r.PID = s.Session.PID
	}
	switch {
	case s.State == supervisor.StateWaiting:
		r.Message = servers.WaitsText(s, all)
	case !servers.IsHealthy(s.State) && s.LastCause != nil:
		r.Message = s.LastCause.Describe()
	}
	return r
}

// printResults prints what has become of servers after an operation; done is the key of the answer with --json. It is an
// error if one of them is not as wanted.
func (inv *invocation) printResults(operation, done string, all []restarted, wanted func(supervisor.State) bool) error {
	var failure error
	for _, r := range all {
		switch text := fmt.Sprintf("%s is %s after %s", r.Server, r.State, plaintext.Duration(time.Duration(r.TookMs)*time.Millisecond)); {
		case !wanted(r.State):
			message := fmt.Sprintf("server %s is %s after the %s: %s", r.Server, r.State, operation, r.Message)
			if r.Message == "" {
				message = fmt.Sprintf("server %s is still %s; mcpvisor status shows how it is", r.Server, r.State)
			}
			failure = &cli.ExitError{Code: cli.ExitUnavailable, Report: cli.Report{Kind: mcpvisor.ErrUnavailable, Server: r.Server, Message: message}}
		case inv.JSON:
		default:
			if r.PID != 0 {
				text += fmt.Sprintf(", pid %d", r.PID)
			}
			if _, err := fmt.Fprintln(inv.Out, text); err != nil {
				return err
			}
		}
	}
	if inv.JSON {
		if err := cli.PrintJSON(inv.Out, map[string]any{done: all}); err != nil {
			return err
		}
	}
	return failure
}

type stopCmd struct {
	Names []string `arg:"" help:"Names of servers and groups." complete:"member"`
	Drain bool     `help:"Wait until the servers have no calls in flight, for 30 seconds at most. Without this flag a stop ends these calls; on a terminal it asks before."`
}

// Run implements kong's command. It stops what is named, in the order of the names.
func (cmd *stopCmd) Run(inv *invocation, c *servers.Set) error {
	stop := func(name string) error { return c.StopServer(inv.Context, name, cmd.Drain) }
	return inv.operate(c, "stop", "stopped", cmd.Names, !cmd.Drain, stop, func(s supervisor.State) bool { return s == supervisor.StateStopped })
}

type startCmd struct {
	Names []string `arg:"" help:"Names of servers and groups." complete:"member"`
}

// Run implements kong's command. It starts what is named, and then waits for all.
func (cmd *startCmd) Run(inv *invocation, c *servers.Set) error {
	start := func(name string) error { return c.StartServer(inv.Context, name) }
	return inv.operate(c, "start", "started", cmd.Names, false, start, func(s supervisor.State) bool { return s == supervisor.StateReady || control.IsAtRest(s) })
}

// serversOf returns the servers that names of servers and, with groups, of groups stand for. Another name is an error.
func serversOf(inv *invocation, c *servers.Set, names []string, groups bool) (all []string, err error) {
	status, err := c.Status(inv.Context)
	if err != nil {
		return nil, err
	}
	var add func(name string, named bool) error
	add = func(name string, named bool) error {
		if i := slices.IndexFunc(status.Groups, func(g mcpvisor.GroupStatus) bool { return groups && g.Name == name }); i >= 0 {
			for _, member := range status.Groups[i].Members {
				if err := add(member, false); err != nil {
					return err
				}
			}
			return nil
		}
		if slices.Contains(status.Names, name) {
			all = append(all, name)
		} else if named {
			var named []string
			for _, g := range status.Groups {
				if groups {
					named = append(named, g.Name)
				}
			}
			return c.UnknownServer(name, named...)
		}
		return nil
	}
	for _, name := range names { // all of them or none
		if err := add(name, true); err != nil {
			return nil, err
		}
	}
	return all, nil
}

type reloadCmd struct {
	DryRun bool `help:"Show what would change, and change nothing."`
}

func (cmd *reloadCmd) Run(inv *invocation, c *servers.Set) error {
	answer, err := c.Reload(inv.Context, cmd.DryRun)
	switch {
	case err != nil:
		return err
	case answer.Problem != "":
		return cli.UsageError("%s; mcpvisor run (pid %d) keeps its servers as they are", answer.Problem, c.Run.PID)
	}
	err = inv.Answer(answer, func() error { return inv.printReload(answer) })
	if answer.GatewayProblem != "" {
		inv.Warn("", "%s; what hosts are offered is kept", answer.GatewayProblem)
	}
	if answer.GroupsProblem != "" {
		inv.Warn("", "%s; the groups stay as they were", answer.GroupsProblem)
	}
	if answer.TrustProblem != "" {
		inv.Warn("", "%s", answer.TrustProblem)
	}
	return errors.Join(err, reloadResult(answer))
}

func (inv *invocation) printReload(answer control.Reload) error {
	var rows [][]any
	for _, c := range answer.Changes {
		note := c.Done()
		if answer.DryRun {
			note = c.Text()
		}
		rows = append(rows, []any{c.Server, string(c.Action), note})
	}
	if len(rows) > 0 {
		if err := inv.Table("SERVER\tCHANGE\tNOTE", rows); err != nil {
			return err
		}
	}
	text := fmt.Sprintf("%s unchanged", display.Count(answer.Unchanged, "server"))
	if len(answer.Also) > 0 {
		text += "; changed: " + strings.Join(answer.Also, ", ")
	}
	if !answer.DryRun {
		text += "; reloaded in " + plaintext.Duration(time.Duration(answer.TookMs)*time.Millisecond)
	}
	_, err := fmt.Fprintln(inv.Out, text)
	return err
}

// reloadResult is nil if every entry is usable and every change has succeeded.
func reloadResult(answer control.Reload) error {
	switch {
	case slices.ContainsFunc(answer.Changes, func(c control.Change) bool { return c.Error != "" }):
		return &cli.ExitError{Code: cli.ExitFailed}
	case answer.GatewayProblem+answer.GroupsProblem+answer.TrustProblem != "" || slices.ContainsFunc(answer.Changes, func(c control.Change) bool { return c.Reason != "" }):
		return &cli.ExitError{Code: cli.ExitUnavailable}
	}
	return nil
}
