package group

// RunsIn reports whether a member runs for all that the group knows.
func (g *Group) RunsIn(name string) bool { return rules[g.byName[name].state()].runs }

// Runs reports whether the group must end a member in that state in its turn.
func Runs(s State) bool { return rules[s].runs }

// ReportedBefore is the state of a member by its last report, whatever was ordered since.
func (g *Group) ReportedBefore(name string) State { return g.byName[name].report.State }
