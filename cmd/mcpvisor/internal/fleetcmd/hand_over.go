package fleetcmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/fleet"
	"github.com/mcpvisor/mcpvisor/fleet/store"
	"github.com/mcpvisor/mcpvisor/internal/backoff"
	"github.com/mcpvisor/mcpvisor/internal/display"
)

type drainCmd struct {
	reach

	Node    string        `arg:"" help:"Id of the node."`
	NoWait  bool          `help:"Do not wait until the node has no servers."`
	Timeout time.Duration `help:"How long to wait (default: 2m)." default:"2m" placeholder:"DURATION"`
}

func (cmd *drainCmd) Run(inv *cli.Invocation) error {
	s, err := cmd.open()
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	err = within(inv, func(ctx context.Context) error { return fleet.RequestDrain(ctx, s, cmd.Node) })
	switch {
	case errors.Is(err, fleet.ErrUnknownNode):
		return cli.UsageError("%v; mcpvisor fleet status lists the nodes", err)
	case err != nil:
		return err
	case cmd.NoWait:
		inv.Note("node %s hands over its servers; mcpvisor fleet status shows how far it is", cmd.Node)
		return nil
	}
	last := -1
	return await(inv, s, cmd.Timeout, func(status fleet.Status) (done bool, left string) {
		i := slices.IndexFunc(status.Nodes, func(n fleet.NodeStatus) bool { return n.ID == cmd.Node })
		if i < 0 {
			inv.Note("node %s has left the fleet", cmd.Node)
			return true, ""
		}
		count := status.Nodes[i].Servers
		if status.Nodes[i].Draining && count == 0 {
			inv.Note("node %s has no servers, and takes none until its process ends", cmd.Node)
			return true, ""
		}
		if count != last {
			inv.Note("node %s has %s", cmd.Node, display.Count(count, "server"))
			last = count
		}
		return false, fmt.Sprintf("node %s still has %s, and continues to hand them over; if no other node may take one of them, it keeps that", cmd.Node, display.Count(count, "server"))
	})
}

type moveCmd struct {
	reach

	Server string `arg:"" help:"Name of the server."`
	Node   string `arg:"" help:"Id of the node that takes it. This does not pin the server: later it goes where placement wants it. To pin it, use node_labels."`
}

func (cmd *moveCmd) Run(inv *cli.Invocation) error {
	s, err := cmd.open()
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	if err := within(inv, func(ctx context.Context) error { _, err := s.Read(ctx, ""); return err }); err != nil { // is it there?
		return err
	}
	if err := fleet.Move(inv.Context, s, cmd.Server, cmd.Node); err != nil {
		if inv.Context.Err() != nil {
			return cli.ErrInterrupted
		}
		switch {
		case errors.Is(err, fleet.ErrUnknownNode):
			return cli.UsageError("%v; mcpvisor fleet status lists the nodes", err)
		case errors.Is(err, fleet.ErrUnknownServer):
			return cli.UsageError("%v; mcpvisor fleet status lists the servers", err)
		}
		return err
	}
	inv.Note("server %s is on node %s", cmd.Server, cmd.Node)
	return nil
}

// pollInterval is how often a command looks at the store while it waits.
const pollInterval = 250 * time.Millisecond

// await looks at the fleet until done, for at most a time. left says what is not done yet.
func await(inv *cli.Invocation, s store.Store, timeout time.Duration, done func(fleet.Status) (bool, string)) error {
	left := "the store has not answered"
	for began := time.Now(); time.Since(began) < timeout; {
		var status fleet.Status
		err := within(inv, func(ctx context.Context) (err error) {
			status, _, err = fleet.Read(ctx, s)
			if err != nil && ctx.Err() == nil && len(status.Nodes) > 0 { // some records cannot be read
				err = nil
			}
			return err
		})
		if err != nil {
			return err
		}
		var over bool
		if over, left = done(status); over {
			return nil
		}
		if backoff.Sleep(inv.Context, pollInterval) != nil {
			return cli.ErrInterrupted
		}
	}
	return &cli.ExitError{Code: cli.ExitFailed, Report: cli.Report{Kind: cli.KindFailed, Message: fmt.Sprintf("after %v: %s", timeout, left)}}
}
