package web

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// attentionOrder orders the kinds within one severity. What only a person can do comes first.
var attentionOrder = []api.AttentionKind{api.AttentionUnauthorized, api.AttentionConfiguration, api.AttentionFleet, api.AttentionEvicted, api.AttentionParked, api.AttentionFlapping, api.AttentionBackoff,
	api.AttentionUnknownOutcome, api.AttentionSlowStart, api.AttentionSlowCalls, api.AttentionQueued, api.AttentionStandby, api.AttentionCatalog,
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
	all = condense(all)
	h.attentionInTerms(all)
	return all
}

// condense makes one entry of all about one server, led by the most urgent, and one of the
// same trouble of several servers.
func condense(all []api.Attention) []api.Attention {
	first := map[string]int{} // by server, in list
	list := make([]api.Attention, 0, len(all))
	for _, a := range all {
		i, known := first[a.Server]
		if a.Server != "" && known {
			text := beyond(list[i].Text, a.Text)
			if a.Action != list[i].Action && a.Kind != api.AttentionFlapping && a.Kind != api.AttentionRestarted { // these need nothing of their own
				text += "; " + a.Action
			}
			list[i].More = append(list[i].More, text)
			continue
		}
		first[a.Server] = len(list)
		list = append(list, a)
	}
	type trouble struct {
		kind api.AttentionKind
		text string
	}
	same := map[trouble][]api.Attention{}
	for _, a := range list {
		if a.Server != "" {
			same[trouble{a.Kind, a.Text}] = append(same[trouble{a.Kind, a.Text}], a)
		}
	}
	grouped := list[:0]
	for _, a := range list {
		key := trouble{a.Kind, a.Text}
		members, counted := same[key]
		switch {
		case a.Server == "":
		case !counted:
			continue // in the entry of the first of them
		case len(members) > 1:
			delete(same, key)
			a = together(members)
		}
		grouped = append(grouped, a)
	}
	return grouped
}

// beyond returns a finding without the cause that another one about the same server begins with, too.
func beyond(first, text string) string {
	same := 0
	for same < min(len(first), len(text)) && first[same] == text[same] {
		same++
	}
	if i := strings.LastIndex(text[:same], "; "); i >= 0 {
		return text[i+len("; "):]
	}
	return text
}

// maxMore is how many further findings the entry of several servers has; more are counted.
const maxMore = 8

// together makes one entry of the same trouble of several servers. What else was found about one
// of them follows, with its name.
func together(members []api.Attention) api.Attention {
	a := members[0]
	a.Server, a.Servers, a.Since, a.More = "", nil, nil, nil
	a.Text = fmt.Sprintf("%d servers: %s", len(members), a.Text)
	left := 0
	for _, m := range members {
		a.Servers = append(a.Servers, m.Server)
		for _, text := range m.More {
			if len(a.More) < maxMore {
				a.More = append(a.More, m.Server+": "+text)
			} else {
				left++
			}
		}
	}
	if left > 0 {
		a.More = append(a.More, fmt.Sprintf("and %d more findings", left))
	}
	return a
}

// sortAttention puts the most urgent entries first, and keeps the order of servers.
func sortAttention(all []api.Attention) {
	severities := []api.Severity{api.SeverityError, api.SeverityWarning, api.SeverityNotice}
	slices.SortStableFunc(all, func(a, b api.Attention) int {
		return cmp.Or(cmp.Compare(slices.Index(severities, a.Severity), slices.Index(severities, b.Severity)),
			cmp.Compare(slices.Index(attentionOrder, a.Kind), slices.Index(attentionOrder, b.Kind)))
	})
}
