package main

import (
	"io"
	"strings"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/table"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// table prints rows with aligned columns. header has a tab between two names.
func (inv *invocation) table(out io.Writer, header string, rows [][]any) error {
	return table.Write(out, table.Colored(out), strings.Split(header, "\t"), rows)
}

// stateCell returns the cell of a state.
func stateCell(s supervisor.State) table.Cell {
	c := table.Cell{Value: s, Color: table.Quiet}
	switch s {
	case supervisor.StateReady:
		c.Color = table.Good
	case supervisor.StateConnecting, supervisor.StateDiscovering, supervisor.StateClosing:
		c.Color = table.Busy
	case supervisor.StateBackoff, supervisor.StateParked:
		c.Color = table.Warning
	case supervisor.StateEvicted, supervisor.StateUnauthorized, stateFailed, stateNotConfigured:
		c.Color = table.Failure
	}
	return c
}
