package fleetcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/plaintext"
	"github.com/mcpvisor/mcpvisor/fleet"
	"github.com/mcpvisor/mcpvisor/fleet/store"
	"github.com/mcpvisor/mcpvisor/internal/backoff"
	"github.com/mcpvisor/mcpvisor/internal/display"
)

type statusCmd struct{ reach }

func (cmd *statusCmd) Run(inv *cli.Invocation) error {
	var status fleet.Status
	err := cmd.ask(inv, func(ctx context.Context, s store.Store) (err error) {
		status, _, err = fleet.Read(ctx, s)
		if err != nil && ctx.Err() == nil && len(status.Nodes)+len(status.Servers) > 0 {
			inv.Warn("", "%v", err)
			err = nil
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case inv.JSON:
		return cli.PrintJSON(inv.Out, newStatusAnswer(status))
	}
	return printStatus(inv, cmd.name(), status)
}

// statusAnswer is the answer of status with --json: what the store has, and so nothing of a single
// node's view.
type statusAnswer struct {
	Generation uint64 `json:"generation"`
	// Applying: a configuration is applied in part.
	Applying bool                 `json:"applying,omitempty"`
	Nodes    []fleet.NodeStatus   `json:"nodes"`
	Servers  []fleet.ServerStatus `json:"servers"`
	Unplaced int                  `json:"unplaced"`
}

func newStatusAnswer(s fleet.Status) statusAnswer {
	a := statusAnswer{Generation: s.Generation, Applying: s.Applying, Nodes: append([]fleet.NodeStatus{}, s.Nodes...), Servers: append([]fleet.ServerStatus{}, s.Servers...)}
	for _, one := range s.Servers {
		if one.Node == "" {
			a.Unplaced++
		}
	}
	return a
}

func printStatus(inv *cli.Invocation, name string, s fleet.Status) error {
	generation := fmt.Sprintf("generation %d", s.Generation)
	if s.Applying {
		generation += ", and another one that was applied in part; run mcpvisor fleet apply again"
	}
	if _, err := fmt.Fprintln(inv.Out, display.Text(name+", "+generation)); err != nil {
		return err
	}
	if len(s.Nodes) == 0 {
		inv.Note("no node has a lease; mcpvisor fleet run starts one")
	} else {
		rows := make([][]any, 0, len(s.Nodes))
		for _, n := range s.Nodes {
			state := "in the fleet"
			if n.Draining {
				state = "draining"
			}
			count := strconv.Itoa(n.Servers)
			if n.Capacity > 0 {
				count += fmt.Sprintf(" of %d", n.Capacity)
			}
			rows = append(rows, []any{n.ID, state, count, strconv.FormatFloat(cmp.Or(n.Weight, 1), 'g', 4, 64), cmp.Or(plaintext.Labels(n.Labels), "-"), cmp.Or(n.Address, "-")})
		}
		if err := inv.Table("NODE\tSTATE\tSERVERS\tWEIGHT\tLABELS\tADDRESS", rows); err != nil {
			return err
		}
	}
	if len(s.Servers) == 0 {
		inv.Note("the fleet has no servers; mcpvisor fleet apply FILE gives it some")
		return nil
	}
	fmt.Fprintln(inv.Out)
	rows := make([][]any, 0, len(s.Servers))
	for _, one := range s.Servers {
		kind := "shared"
		if one.Exclusive {
			kind = "exclusive"
		}
		node := one.Node
		if node == "" {
			node = "none: " + one.Unplaced
		}
		rows = append(rows, []any{one.Name, kind, one.Epoch, node})
	}
	return inv.Table("SERVER\tKIND\tEPOCH\tNODE", rows)
}

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
		if errors.Is(err, fleet.ErrUnknownNode) || errors.Is(err, fleet.ErrUnknownServer) {
			return cli.UsageError("%v; mcpvisor fleet status lists nodes and servers", err)
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
