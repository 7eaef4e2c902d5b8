package main

import (
	"errors"
	"slices"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/attach"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/internal/backoff"
	"github.com/mcpvisor/mcpvisor/internal/defaults"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// These are the conditions that --wait of status may name.
const (
	waitReady = "ready" // all servers are ready
	waitAny   = "any"   // one server is ready
)

// waitValue is the value of --wait: a duration, or what to wait for.
type waitValue struct {
	duration  time.Duration
	condition string
}

func (w *waitValue) UnmarshalText(text []byte) (err error) {
	switch string(text) {
	case waitReady, waitAny:
		w.condition = string(text)
		return nil
	}
	if w.duration, err = time.ParseDuration(string(text)); err != nil {
		return errors.New("must be a duration such as 30s; for status also ready or any")
	}
	return nil
}

// timeoutValue is the value of --timeout: a duration that is more than 0.
type timeoutValue struct{ time.Duration }

func (t *timeoutValue) UnmarshalText(text []byte) (err error) {
	if t.Duration, err = time.ParseDuration(string(text)); err != nil || t.Duration <= 0 {
		return errors.New("must be a duration such as 30s, and more than 0; leave it out for the default")
	}
	return nil
}

// runInterval is how often a command looks for a `mcpvisor run` that it waits for.
const runInterval = 50 * time.Millisecond

// timeout is how long --wait ready and --wait any wait.
func (cmd *statusCmd) timeout() time.Duration {
	if cmd.Timeout.Duration > 0 {
		return cmd.Timeout.Duration
	}
	return defaults.StartTimeout + defaults.ListTimeout + servers.StartSlack
}

// awaitRun waits for a `mcpvisor run`, because a script that has just started one cannot know
// when it can be reached. The time it takes counts.
func (cmd *statusCmd) awaitRun(inv *invocation) (*servers.Set, error) {
	began := time.Now()
	noted := false
	for {
		took := time.Since(began)
		if took >= cmd.timeout() {
			return inv.AttachOnly("--wait " + inv.WaitFor + " without --fresh")
		}
		if took >= servers.NoticeDelay && !noted {
			noted = true
			inv.Note("waiting for mcpvisor run of %s (up to %v)", inv.Sources, cmd.timeout())
		}
		if backoff.Sleep(inv.Context, runInterval) != nil {
			return nil, cli.ErrInterrupted
		}
		c, err := inv.Attach()
		if err == nil {
			cmd.Timeout.Duration = max(cmd.timeout()-time.Since(began), time.Millisecond)
		}
		if !errors.Is(err, attach.ErrNotRunning) {
			return c, err
		}
	}
}

// awaitReady waits until all servers are ready, or one of them with --wait any. It ends, too,
// when none of them can still become ready by itself, and at the timeout.
func (cmd *statusCmd) awaitReady(inv *invocation, c *servers.Set) error {
	timed := *inv
	timed.Wait = cmd.timeout()
	names := c.Run.Servers // also those that are not registered yet
	unusable := len(c.Run.Unusable)
	if len(cmd.Servers) > 0 {
		names = slices.DeleteFunc(slices.Clone(cmd.Servers), func(name string) bool { return !slices.Contains(c.Run.Servers, name) })
		unusable = len(cmd.Servers) - len(names)
	}
	if unusable > 0 && inv.WaitFor == waitReady || len(names) == 0 {
		return nil // they will never be ready
	}
	return timed.AwaitStatus(c, func(status api.Status) bool { return waitEnds(inv.WaitFor, names, status.Servers) })
}

// waitEnds reports whether a condition about the named servers holds, or can no longer hold.
// A server that is not registered yet is not ready.
func waitEnds(condition string, names []string, servers []mcpvisor.ServerStatus) bool {
	ready, lost := 0, 0
	for _, s := range servers {
		if !slices.Contains(names, s.Name) {
			continue
		}
		switch s.State {
		case supervisor.StateReady:
			ready++
		case supervisor.StateEvicted, supervisor.StateUnauthorized, supervisor.StateStopping, supervisor.StateStopped:
			lost++
		default:
		}
	}
	if condition == waitAny {
		return ready > 0 || lost == len(names)
	}
	return lost > 0 || ready == len(names)
}
