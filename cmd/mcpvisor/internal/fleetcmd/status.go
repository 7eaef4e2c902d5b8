package fleetcmd

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/fleet"
	"github.com/mcpvisor/mcpvisor/fleet/store"
	"github.com/mcpvisor/mcpvisor/internal/display"
)

type statusCmd struct{ reach }

func (cmd *statusCmd) Run(inv *cli.Invocation) error {
	var status fleet.Status
	err := cmd.ask(inv, func(ctx context.Context, s store.Store) (err error) {
		status, _, err = fleet.Read(ctx, s)
		if err != nil && ctx.Err() == nil && len(status.Nodes)+len(status.Servers) > 0 {
			inv.Warn("", "%v", err)
			return nil
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
	a := statusAnswer{Generation: s.Generation, Applying: s.Applying, Nodes: s.Nodes, Servers: s.Servers}
	if a.Nodes == nil {
		a.Nodes = []fleet.NodeStatus{}
	}
	if a.Servers == nil {
		a.Servers = []fleet.ServerStatus{}
	}
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
			rows = append(rows, []any{n.ID, state, count, strconv.FormatFloat(cmp.Or(n.Weight, 1), 'g', 4, 64), cmp.Or(labelText(n.Labels), "-"), cmp.Or(n.Address, "-")})
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

func labelText(labels map[string]string) string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		texts = append(texts, name+"="+labels[name])
	}
	return strings.Join(texts, " ")
}
