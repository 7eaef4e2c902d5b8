package web

import (
	"cmp"
	"slices"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// attentionOrder orders the kinds within one severity.
var attentionOrder = []api.AttentionKind{api.AttentionEvicted, api.AttentionUnauthorized, api.AttentionConfiguration, api.AttentionParked, api.AttentionFlapping, api.AttentionBackoff,
	api.AttentionUnknownOutcome, api.AttentionSlowStart, api.AttentionSlowCalls, api.AttentionQueued, api.AttentionStandby, api.AttentionAbandoned, api.AttentionCatalog,
	api.AttentionRestarted, api.AttentionDiscarded, api.AttentionDeprecated}

// attention lists what an operator should look at, the most urgent entry first. It is the
// only place that decides this about servers: the page, the terminal view and the commands show
// it.
func (h *Handler) attention(at time.Time, servers []mcpvisor.ServerStatus) []api.Attention {
	f := facts{at: at, unknown: unknownOutcomes(at, h.client.UnknownCalls()), slow: slowCalls(at, h.client.CallsInFlight())}
	all := []api.Attention{}
	for i := range servers {
		all = append(all, f.about(&servers[i])...)
	}
	if h.opts.attention != nil {
		all = append(all, h.opts.attention()...)
	}
	sortAttention(all)
	return all
}

// sortAttention puts the most urgent entries first, and keeps the order of servers.
func sortAttention(all []api.Attention) {
	severities := []api.Severity{api.SeverityError, api.SeverityWarning, api.SeverityNotice}
	slices.SortStableFunc(all, func(a, b api.Attention) int {
		return cmp.Or(cmp.Compare(slices.Index(severities, a.Severity), slices.Index(severities, b.Severity)),
			cmp.Compare(slices.Index(attentionOrder, a.Kind), slices.Index(attentionOrder, b.Kind)))
	})
}
