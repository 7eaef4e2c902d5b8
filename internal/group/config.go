package group

import (
	"time"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

// Restart is the restart type of a member.
type Restart string

const (
	// Permanent: the member must run. It is the zero value, too.
	Permanent Restart = "permanent"
	// Transient: a server that exits with 0 after its work rests; its lifecycle decides that. A group cannot be
	// transient.
	Transient Restart = "transient"
	// Temporary: the member is never started again while the group runs, and its end is no failure.
	Temporary Restart = "temporary"
)

// Member is one member of a group.
type Member struct {
	Name    string
	Group   bool // a nested group, and not a server
	Restart Restart
	// After are servers and groups, of this group or others, that must be ready when the member starts.
	After []string
}

// Config describes one group. It does not change; members come and go by inputs.
type Config struct {
	Name string
	// Strategy: with RestForOne and OneForAll each member also comes after all those before it.
	Strategy supervisor.Strategy
	Members  []Member
	// Intensity of failures: Restarts are those that are allowed within Window. No bound if Window is 0. What follows is
	// WhenSpent.
	Intensity supervisor.Intensity
	WhenSpent supervisor.WhenSpent
	// ParkEvery is the pause of SpentPark.
	ParkEvery time.Duration
	// StartBound is how long a member waits for one before it that starts; 0 means until that one is ready.
	StartBound time.Duration
	// Parallel: the members start at once; each waits only for its After. Only with OneForOne.
	Parallel bool
	// Root: the group has no parent.
	Root bool
	// Apart: the members share only the order. The failure of one does not count for the group.
	Apart bool
}

// ordered reports whether each member comes after all those before it, and not only when the group starts.
func (c *Config) ordered() bool {
	return c.Strategy == supervisor.RestForOne || c.Strategy == supervisor.OneForAll
}
