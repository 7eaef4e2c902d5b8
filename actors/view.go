package actors

import (
	"slices"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// View is one registration at one moment, as the manager published it. It is immutable,
// but for what it asks its sessions: [View.Listed] and [View.Status] leave out a session
// that has died meanwhile.
type View struct {
	Name string
	Gen  uint64 // the number of the registration; each Register has its own
	Spec *mcpvisor.ServerSpec

	// As the lifecycle of package supervisor reports them.
	State    supervisor.State
	Since    time.Time // when State was entered
	Epoch    uint64    // the number of the incarnation
	Attempt  int
	Restarts int
	RetryAt  time.Time         // zero unless a retry is planned
	Cause    *supervisor.Cause // why the last session ended; nil if none has

	Catalog   *catalog.Catalog // what the server offers; nil unless it is ready
	EverReady bool             // the server was ready at least once
	History   []mcpvisor.Incarnation

	last    *catalog.Catalog // what a server that is down offered; nil while it is ready
	leaving bool             // the registration is being removed
	// replaced: the registration is being removed, and the next one of the name follows at
	// once.
	replaced bool
	current  *incarnation // the latest one, dead or alive; nil before the first
	standby  *incarnation // can take over; nil if there is no such standby
	// protocol is the version that current has negotiated; empty unless State is ready.
	// Each observed call reads it, and Info of the session takes a lock.
	protocol string
	// mayTakeOver: the policy lets the standby take over when the session ends.
	mayTakeOver bool
	stats       *registrationStats

	// What the supervising actor has counted: how often the server was ready, how long,
	// without the time since readySince, and stale messages. readySince is zero unless it
	// is ready.
	timesReady int64
	readyFor   time.Duration
	readySince time.Time
	stale      uint64
}

// knownCatalog is what the server offers, or offered while it was ready.
func (v *View) knownCatalog() *catalog.Catalog {
	if v.Catalog != nil {
		return v.Catalog
	}
	return v.last
}

// Listed is what the server offers now. It is nil if the server is not ready, or if its
// session has died and the manager has not handled the report yet. So a caller whose
// call failed with ErrCrashed never finds the tools listed.
func (v *View) Listed() *catalog.Catalog {
	if v.Catalog == nil || v.sessionCause() != nil {
		return nil
	}
	return v.Catalog
}

// ListedOrLast is [View.Listed] or, while the server is down and may return without being
// asked to, what it offered last. down says that it is that.
func (v *View) ListedOrLast() (c *catalog.Catalog, down bool) {
	if c := v.Listed(); c != nil {
		return c, false
	}
	if v.leaving || !mayReturn(v.State) {
		return nil, false
	}
	c = v.knownCatalog()
	return c, c != nil
}

// Leaving reports whether the registration is being removed, perhaps to be replaced.
func (v *View) Leaving() bool { return v.leaving }

// sessionCause is why the session of a ready server has ended. It is nil while the
// session lives, and when the standby takes its place: the tools stay listed then.
func (v *View) sessionCause() *supervisor.Cause {
	if v.State != supervisor.StateReady || v.current == nil {
		return nil
	}
	cause := v.current.session.Cause()
	if cause != nil && !cause.Permanent && v.mayTakeOver && v.standby.session.Cause() == nil {
		return nil
	}
	return cause
}

// mayReturn reports whether a server in that state is ready, or may become ready without a
// Restart.
func mayReturn(s supervisor.State) bool {
	return isOpen(s) || s == supervisor.StateClosing || s == supervisor.StateBackoff || s == supervisor.StateParked
}

// isOpen reports whether a server in that state has a session that is open or opening.
func isOpen(s supervisor.State) bool {
	return s == supervisor.StateConnecting || s == supervisor.StateDiscovering || s == supervisor.StateReady
}

// Status is the view as users see it.
func (v *View) Status() mcpvisor.ServerStatus {
	if cause := v.sessionCause(); cause != nil {
		down := *v
		down.State, down.Since, down.Cause, down.Catalog = supervisor.StateClosing, time.Now(), cause, nil
		v = &down
	}
	st := mcpvisor.ServerStatus{
		Name: v.Name, State: v.State, Since: v.Since, Gen: v.Gen, Epoch: v.Epoch,
		Transport: v.Spec.TransportKind(), Target: v.Spec.Target(), Policy: v.Spec.Policy.String(), Origin: v.Spec.Origin,
		WantsStandby: v.Spec.Standby,
		Attempt:      v.Attempt, MaxAttempts: v.Spec.Policy.MaxAttempts, Restarts: v.Restarts,
		LastCause: v.Cause.Clone(), History: slices.Clone(v.History),
		Calls: v.stats.calls.counts(), Totals: v.totals(time.Now()),
	}
	for i := range st.History {
		st.History[i].Cause = st.History[i].Cause.Clone()
	}
	if !v.RetryAt.IsZero() {
		at := v.RetryAt
		st.RetryAt = &at
	}
	if v.current != nil && v.current.epoch == v.Epoch && isOpen(v.State) {
		info := v.current.session.Info()
		if v.State != supervisor.StateReady {
			info.Stderr = transport.StderrOf(v.current.session)
		}
		st.Session = &info
	}
	if v.standby != nil && v.standby.session.Cause() == nil {
		info := v.standby.session.Info()
		st.Standby = &info
	}
	if c := v.Catalog; c != nil {
		st.Catalog = mcpvisor.CatalogInfo{Tools: len(c.Tools), Resources: len(c.Resources),
			Templates: len(c.Templates), Prompts: len(c.Prompts), Hidden: c.Hidden, Tokens: c.Tokens, Warnings: slices.Clone(c.Warnings)}
	}
	return st
}

// totals are the counts since the registration began.
func (v *View) totals(now time.Time) mcpvisor.Totals {
	t := v.stats.totals()
	t.Ready, t.Uptime, t.StaleMessages = v.timesReady, v.readyFor, v.stale
	if !v.readySince.IsZero() {
		t.Uptime += max(now.Sub(v.readySince), 0)
	}
	return t
}
