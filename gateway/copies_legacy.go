package gateway

import (
	"maps"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/gateway/internal/notices"
)

// A server that speaks both eras is spoken to in the modern one. Its tools may then be unable to ask a client of the
// legacy one: those of the go-sdk, for example, cannot send a question in a session of 2026-07-28. So sessions
// before 2026-07-28 that answer questions use a copy of the legacy era, which they share.

// legacyKey is tenant.key of the tenant that all sessions before 2026-07-28 share.
const legacyKey = "legacy"

// needsLegacy reports whether the requests of the session go to a copy that speaks the era of its client, or may have
// to: nothing is known of a server that has not been ready.
func (t *tenancy) needsLegacy(server string) bool {
	both, known := relay.Of(t.gateway.client).SpeaksBothEras(server)
	return t.session.mayBeAsked() && (both || !known)
}

// mayBeAsked reports whether the session is one before 2026-07-28 that answers questions.
func (s *session) mayBeAsked() bool { return s.legacy.Load() && s.questions.handlers.Load() != nil }

// sharedTenant returns the tenant of the sessions before 2026-07-28; nil if the session has ended.
func (t *tenancy) sharedTenant() *tenant {
	return t.tenantAt(&t.shared, func() *tenant { return t.gateway.opts.settings.enterLegacy(t.session) })
}

// enterLegacy returns the tenant that all sessions before 2026-07-28 share at servers that speak both eras, if
// they answer questions: so such a server has one more process for them, and not one for each. Each call needs
// one of leaveLegacy.
func (v *SettingsVar) enterLegacy(s *session) *tenant {
	v.legacyMu.Lock()
	defer v.legacyMu.Unlock()
	t := v.legacy[s.gateway.client]
	if t == nil {
		t = newTenant(s.gateway, legacyKey, "")
		t.shared, t.legacy = true, func() bool { return true }
		declared := facade.Declared{Sampling: true, SamplingTools: true, Elicitation: true, URLElicitation: true, Roots: true, RootsListChanged: s.gateway.opts.standalone != nil}
		t.options = func() []facade.Option { return []facade.Option{facade.WithDeclared(declared)} }
		maps.DeleteFunc(v.legacy, func(client *facade.Client, _ *tenant) bool { return relay.Of(client).Closed() })
		if v.legacy == nil {
			v.legacy = map[*facade.Client]*tenant{}
		}
		v.legacy[s.gateway.client] = t
	}
	t.use.begin()
	t.join(s.notify, s.gateway.view)
	return t
}

// leaveLegacy ends what enterLegacy began. Without further sessions the copies end after SessionIdle.
func (v *SettingsVar) leaveLegacy(s *session, t *tenant) {
	t.leave(s.notify)
	v.legacyMu.Lock()
	defer v.legacyMu.Unlock()
	if t.use.end() && t.running.Load() > 0 {
		t.use.dropAfter(s.gateway.opts.http.SessionIdle, &v.legacyMu, t.rest)
	}
}

// levelLocked returns the lowest log level that a session of the tenant has set; empty: none.
func (t *tenant) levelLocked() string {
	lowest := notices.NoLogs
	for n := range t.told {
		lowest = min(lowest, n.LevelOfLogs())
	}
	if lowest < notices.NoLogs {
		return notices.LogLevels[lowest]
	}
	return ""
}

// followServer ends a shared copy after a restart of the server.
func (t *tenant) followServer(e mcpvisor.Event) {
	if e.Kind == mcpvisor.EventDown && e.Cause.Asked() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if s := t.seats[e.Server]; s != nil {
			s.endLocked()
		}
	}
}
