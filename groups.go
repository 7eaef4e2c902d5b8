package mcpvisor

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

// Group is a supervisor of several servers, as in OTP: it starts and ends them in order, and says which of them are
// restarted when one fails. facade.Client.SetGroups sets the groups of a client.
//
//	mcpvisor.Group{
//		Name:     "web",
//		Members:  []string{"browser", "scraper"},
//		Strategy: supervisor.RestForOne, // without its browser the scraper is useless
//	}
type Group struct {
	// Name is unique among the groups and servers of a client. It is written like the name of a server. Required.
	Name string
	// Members are servers and groups, in the order of their start. A server that is not registered joins when it is.
	// A server or group is a member of one group at most.
	//
	// A member starts when the one before it is ready, and ends before that one.
	Members []string
	// Strategy says which members are restarted when one fails. Default supervisor.OneForOne. The others end as
	// planned, which costs them nothing of their own budget: calls in flight fail with ErrEnded and OutcomeUnknown,
	// and name the group and the member that failed; calls that were not sent wait as at any restart.
	Strategy supervisor.Strategy
	// Intensity is how many failures of members the group allows within a window. One more, and the group has failed.
	// Default: any number. A member whose own policy has given it up makes its group fail, too.
	Intensity supervisor.Intensity
	// WhenSpent says what follows when the group has failed. Default supervisor.SpentParent.
	WhenSpent supervisor.WhenSpent
	// ParkEvery is the pause before a group with supervisor.SpentPark starts afresh. Default 5 minutes.
	ParkEvery time.Duration
	// StartBound is how long a member waits for the one before it. Then it starts nevertheless. Default, and 0: until
	// that one is ready, or at rest.
	StartBound time.Duration
	// Temporary: the group that this one is a member of does not start it again when it has failed.
	Temporary bool
	// After names servers and groups that must be ready before the first member starts.
	After []string
}

// defaultGroupPark is the default of Group.ParkEvery.
const defaultGroupPark = 5 * time.Minute

// WithDefaults returns the group with its defaults.
func (g Group) WithDefaults() Group {
	if g.Strategy == "" {
		g.Strategy = supervisor.OneForOne
	}
	if g.WhenSpent == "" {
		g.WhenSpent = supervisor.SpentParent
	}
	if g.ParkEvery == 0 {
		g.ParkEvery = defaultGroupPark
	}
	g.Members, g.After = slices.Clone(g.Members), slices.Clone(g.After)
	return g
}

// Validate reports everything in the group that cannot work, each with the way to correct it. Whether the groups of
// a client fit together is known when they are set.
func (g Group) Validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("group %q: "+format, append([]any{g.Name}, args...)...))
	}
	if err := CheckServerName(g.Name); err != nil {
		bad("%w", err)
	}
	if !slices.Contains([]supervisor.Strategy{"", supervisor.OneForOne, supervisor.RestForOne, supervisor.OneForAll}, g.Strategy) {
		bad("strategy %q is unknown; use one_for_one, rest_for_one or one_for_all", g.Strategy)
	}
	if !slices.Contains([]supervisor.WhenSpent{"", supervisor.SpentPark, supervisor.SpentEvict, supervisor.SpentParent}, g.WhenSpent) {
		bad("what follows when it is spent is %q; use park, evict or parent", g.WhenSpent)
	}
	if i := g.Intensity; i.Restarts < 0 || i.Window < 0 || i.Restarts > 0 && i.Window == 0 {
		bad("intensity is %d restarts in %v; set a window that is more than zero", i.Restarts, i.Window)
	}
	if g.ParkEvery < 0 || g.StartBound < 0 {
		bad("a time is negative; use 0 for the default")
	}
	for _, m := range slices.Concat(g.Members, g.After) {
		if err := CheckServerName(m); err != nil {
			bad("member or after: %w", err)
		}
	}
	return errors.Join(errs...)
}

// GroupStatus describes one group at one moment.
type GroupStatus struct {
	// Name, Strategy, Members and After are those of the group. Parent is the group that it is a member of, or empty.
	Name     string              `json:"name"`
	Parent   string              `json:"parent,omitempty"`
	Strategy supervisor.Strategy `json:"strategy"`
	Members  []string            `json:"members"`
	After    []string            `json:"after,omitempty"`
	// State is "starting" until all members were ready once, "ready", "ending" while members end for the group, "waiting" for what it comes
	// after, "blocked" if that is stopped, "parked" or "given up" when it has failed, and "failed" while its parent
	// decides.
	State string `json:"state"`
	// Cause says why it has failed; nil if it has not.
	Cause *supervisor.Cause `json:"cause,omitempty"`
}
