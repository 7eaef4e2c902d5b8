package top

import (
	"slices"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// flapping reports whether a server has ended several times in a short time, as the list of what
// needs attention says. Its state changes too often to be read.
func (m *model) flapping(s *mcpvisor.ServerStatus) bool {
	switch s.State {
	case supervisor.StateEvicted, supervisor.StateParked, supervisor.StateUnauthorized, supervisor.StateStopping, supervisor.StateStopped:
		return false // which lasts
	default:
	}
	return slices.ContainsFunc(m.data.status.Attention, func(a api.Attention) bool {
		return a.Kind == api.AttentionFlapping && (a.Server == s.Name || slices.Contains(a.Servers, s.Name))
	})
}

// stateOf is the state of a server as its row shows it.
func (m *model) stateOf(s *mcpvisor.ServerStatus) (text string, style lipgloss.Style) {
	if m.flapping(s) {
		return "↻ flapping", warning
	}
	return glyph(s.State) + " " + string(s.State), styleOf(s.State)
}

// keptUsage is how long the last CPU and memory of a flapping server are shown while it has no
// process: three samples.
const keptUsage = 15 * time.Second

// lastUsage is what a server used when that was known last.
type lastUsage struct {
	cpu    *float64
	memory *int64
	at     time.Time
}

// keepUsage fills in the last values of flapping servers whose values are not known now, and
// notes those that are.
func (m *model) keepUsage() {
	now, before := m.opts.Now(), m.lastUsage
	m.lastUsage = map[string]lastUsage{}
	m.data.usage.Servers = slices.Clone(m.data.usage.Servers) // which the source may share
	for i := range m.data.status.Servers {
		s := &m.data.status.Servers[i]
		at := slices.IndexFunc(m.data.usage.Servers, func(u api.ServerUsage) bool { return u.Server == s.Name })
		if at < 0 {
			at = len(m.data.usage.Servers)
			m.data.usage.Servers = append(m.data.usage.Servers, api.ServerUsage{Server: s.Name})
		}
		u, last := &m.data.usage.Servers[at], before[s.Name]
		switch {
		case u.CPU != nil:
			last = lastUsage{u.CPU, u.MemoryBytes, now}
		case m.flapping(s) && now.Sub(last.at) < keptUsage:
			u.CPU = last.cpu
			if u.MemoryBytes == nil {
				u.MemoryBytes = last.memory
			}
		default:
			continue
		}
		m.lastUsage[s.Name] = last
	}
}
