package web

import (
	"slices"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// inTerms returns a text in the words of [WithTerms].
func (h *Handler) inTerms(text string) string {
	if h.opts.terms == nil || text == "" {
		return text
	}
	return h.opts.terms(text)
}

func (h *Handler) causeInTerms(c *supervisor.Cause) *supervisor.Cause {
	if h.opts.terms == nil || c == nil {
		return c
	}
	c = c.Clone()
	c.Message = h.opts.terms(c.Error())
	return c
}

// statusInTerms changes a status, which is a copy.
func (h *Handler) statusInTerms(s *mcpvisor.ServerStatus) {
	if h.opts.terms == nil {
		return
	}
	s.LastCause = h.causeInTerms(s.LastCause)
	s.History = slices.Clone(s.History)
	for i := range s.History {
		s.History[i].Cause = h.causeInTerms(s.History[i].Cause)
	}
	s.Catalog.Warnings = slices.Clone(s.Catalog.Warnings)
	for i := range s.Catalog.Warnings {
		s.Catalog.Warnings[i].Text = h.inTerms(s.Catalog.Warnings[i].Text)
	}
}

func (h *Handler) attentionInTerms(all []api.Attention) {
	for i := range all {
		a := &all[i]
		a.Text, a.Action = h.inTerms(a.Text), h.inTerms(a.Action)
		for j := range a.More {
			a.More[j] = h.inTerms(a.More[j])
		}
	}
}

// groupOf says what an event is about.
func groupOf(e *mcpvisor.Event) api.EventGroup {
	switch e.Kind {
	case mcpvisor.EventRegistered, mcpvisor.EventUnregistered:
		return api.GroupConfiguration
	case mcpvisor.EventChanged:
		return api.GroupLists
	case mcpvisor.EventParked, mcpvisor.EventEvicted, mcpvisor.EventAuthRequired:
		return api.GroupGivenUp
	case mcpvisor.EventTaskRecovered, mcpvisor.EventTaskLost:
		return api.GroupTasks
	case mcpvisor.EventResourceUpdated, mcpvisor.EventLog, mcpvisor.EventMissed:
		return api.GroupMessages
	case mcpvisor.EventReady:
		if !e.Change.IsZero() {
			return api.GroupLists
		}
	case mcpvisor.EventConnecting, mcpvisor.EventStable, mcpvisor.EventStandby, mcpvisor.EventStandbyLost, mcpvisor.EventDown, mcpvisor.EventStartFailed, mcpvisor.EventRetry:
	}
	return api.GroupEnds
}

func (h *Handler) summaryOf(s *mcpvisor.EventSummary) api.EventSummary {
	return api.EventSummary{EventSummary: *s, Last: h.eventOf(&s.Last), Text: h.inTerms(s.String())}
}

func (h *Handler) eventOf(e *mcpvisor.Event) api.Event {
	shown := api.Event{Event: *e, Text: h.inTerms(e.String()), Severity: e.Severity(), Group: groupOf(e), FromServer: e.Kind.FromServer()}
	shown.Cause = h.causeInTerms(e.Cause)
	return shown
}
