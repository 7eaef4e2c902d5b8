package main

import (
	"fmt"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// stateStyle returns the glyph and the colour of a state.
func stateStyle(s supervisor.State) (glyph, color string) {
	switch s {
	case supervisor.StateReady:
		return "●", green
	case supervisor.StateEvicted, supervisor.StateUnauthorized:
		return "✗", red
	case supervisor.StateParked:
		return "◌", yellow
	default:
	}
	return "○", yellow
}

// printTable prints the status of the servers.
func (p *printer) printTable(all []mcpvisor.ServerStatus) {
	p.printLine(plainText, "")
	width := p.nameWidth
	p.printRow(dim, fmt.Sprintf("  %-*s %-8s %-8s %-5s %-10s %-7s ", width, "NAME", "STATE", "RESTARTS", "TOOLS", "PROTOCOL", "PID"), "POLICY")
	for _, s := range all {
		protocol, pid := "–", "–"
		if s.Session != nil {
			protocol = s.Session.ProtocolVersion
			if s.Session.PID != 0 {
				pid = fmt.Sprint(s.Session.PID)
			}
		}
		glyph, color := stateStyle(s.State)
		p.printRow(color, fmt.Sprintf("%s %-*s %-8s %-8d %-5d %-10s %-7s ", glyph, width, s.Name, s.State, s.Restarts, s.Catalog.Tools, protocol, pid), s.Policy)
	}
}

func roundedDuration(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1fms", float64(d.Microseconds())/1000)
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	}
	return fmt.Sprintf("%.2fs", d.Seconds())
}
