package web

import (
	"cmp"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway/clients"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/internal/jsonanswer"
	"github.com/mcpvisor/mcpvisor/internal/nearest"
	"github.com/mcpvisor/mcpvisor/internal/secret"
	"github.com/mcpvisor/mcpvisor/internal/usage"
	"github.com/mcpvisor/mcpvisor/monitor"
	"github.com/mcpvisor/mcpvisor/web/api"
)

func (h *Handler) getStatus(w http.ResponseWriter, r *http.Request) {
	only := r.URL.Query()["server"]
	answerValue(h, w, r, func() api.Status {
		at := now()
		all := h.client.Status()
		groups := h.client.Groups()
		s := api.Status{Schema: api.Schema, Instance: h.instance, Title: h.opts.title, Version: facade.Version(), Now: at,
			Controls: h.opts.controls, Recorded: h.opts.program.Records != nil, Attention: h.attention(at, all, groups), Servers: all, Groups: groups, Stats: h.client.Stats(), Names: make([]string, 0, len(all))}
		for i := range all {
			s.Names = append(s.Names, all[i].Name)
			h.statusInTerms(&all[i])
		}
		for i := range groups {
			groups[i].Cause = h.causeInTerms(groups[i].Cause)
		}
		if only != nil {
			s.Servers = slices.DeleteFunc(all, func(one mcpvisor.ServerStatus) bool { return !slices.Contains(only, one.Name) })
		}
		return s
	})
}

func (h *Handler) getCalls(w http.ResponseWriter, r *http.Request) {
	after, ok := number(w, r, "after")
	if !ok {
		return
	}
	unfinished := h.unfinished.read(r.Context(), h.client)
	answerValue(h, w, r, func() api.Calls {
		recent, missed := h.client.History().Calls(after)
		calls := api.Calls{InFlight: orEmpty(h.client.CallsInFlight()), Approvals: h.approvals(), Tasks: h.client.Tasks(), Recent: orEmpty(recent), Unknown: orEmpty(h.client.History().UnknownCalls()), Missed: missed}
		calls.Unfinished = unfinished[:min(len(unfinished), maxUnfinished)]
		calls.MoreUnfinished = len(unfinished) - len(calls.Unfinished)
		for _, ended := range [][]monitor.CallRecord{calls.Recent, calls.Unknown} {
			for i := range ended {
				ended[i].Error = h.inTerms(ended[i].Error)
			}
		}
		return calls
	})
}

func (h *Handler) getClients(w http.ResponseWriter, r *http.Request) {
	answerValue(h, w, r, func() api.Clients {
		answer := api.Clients{Instance: h.instance, Status: clients.Status{Sessions: []clients.SessionStatus{}, Offers: []clients.Offer{}}}
		if h.opts.gateway != nil {
			answer.Gateway, answer.Status = true, h.opts.gateway()
		}
		return answer
	})
}

func (h *Handler) getNodes(w http.ResponseWriter, r *http.Request) {
	answerValue(h, w, r, func() api.Nodes {
		answer := api.Nodes{Instance: h.instance}
		if h.opts.program.Fleet != nil {
			answer.Fleet, answer.FleetStatus = true, h.opts.program.Fleet()
		}
		answer.Nodes, answer.Placements = orEmpty(answer.Nodes), orEmpty(answer.Placements)
		return answer
	})
}

// number returns a query parameter that is a number, 0 if it is not set. If it is not a
// number, the request is answered and ok is false.
func number(w http.ResponseWriter, r *http.Request, name string) (n uint64, ok bool) {
	text := strings.Join(r.URL.Query()[name], ",") // no number if it is given twice
	if text == "" {
		return 0, true
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		writeError(w, http.StatusBadRequest, api.ErrorDetail{Kind: mcpvisor.ErrInvalid, Message: fmt.Sprintf("%s=%q is not a number of 0 or more", name, text)})
		return 0, false
	}
	return n, true
}

// orEmpty returns a list that JSON shows as [] when it is empty.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func (h *Handler) getTools(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if _, found := h.client.ServerStatus(name); !found {
		h.writeUnknownServer(w, name)
		return
	}
	h.answer(w, r, func(e *jsonanswer.Encoder) { // a Tools
		e.Field("server", name)
		tokens := 0
		jsonanswer.List(e, "tools", h.toolsOf(name), func(tool mcpvisor.Tool) any {
			one := api.Tool{Tool: tool, Tokens: tool.TokenEstimate()}
			tokens += one.Tokens
			return h.masked(name, one)
		})
		e.Field("tokens", tokens)
	})
}

// masked returns a value of a server without secrets of the configuration.
func (h *Handler) masked(server string, value any) any {
	if h.opts.program.Mask == nil {
		return value
	}
	return secret.MaskJSON(func(text string) string { return h.opts.program.Mask(server, text) }, value)
}

func (h *Handler) toolsOf(server string) iter.Seq[mcpvisor.Tool] {
	return func(yield func(mcpvisor.Tool) bool) {
		for tool := range h.client.AllTools() {
			if tool.Server == server && !yield(tool) {
				return
			}
		}
	}
}

func (h *Handler) getToolUse(w http.ResponseWriter, r *http.Request) {
	limit, ok := number(w, r, "limit")
	if !ok {
		return
	}
	answerValue(h, w, r, func() api.ToolUse {
		var all []monitor.ToolStats
		for _, name := range h.client.Servers() {
			for _, s := range h.client.ToolStats(name) {
				if s.Calls > 0 || s.Refused > 0 {
					all = append(all, s)
				}
			}
		}
		slices.SortStableFunc(all, func(a, b monitor.ToolStats) int { return cmp.Compare(b.Duration.Sum, a.Duration.Sum) })
		total := len(all)
		if limit > 0 && limit < uint64(total) {
			all = all[:limit]
		}
		return api.ToolUse{Tools: statsOf(all), Total: total}
	})
}

func (h *Handler) getEvents(w http.ResponseWriter, r *http.Request) {
	after, ok := h.firstEvent(w, r)
	if !ok {
		return
	}
	kinds, servers := kindsOf(r), r.URL.Query()["server"]
	answerValue(h, w, r, func() api.Events {
		kept, missed := h.client.History().Events(after)
		answer := api.Events{Events: make([]api.Event, 0, len(kept)), Missed: missed}
		for i := range kept {
			if selects(kinds, kept[i].Kind) && selects(servers, kept[i].Server) {
				answer.Events = append(answer.Events, h.eventOf(&kept[i]))
			}
		}
		return answer
	})
}

// selects reports whether a selection has a value. An empty selection has all.
func selects[T comparable](selection []T, value T) bool {
	return len(selection) == 0 || slices.Contains(selection, value)
}

func (h *Handler) getSummaries(w http.ResponseWriter, r *http.Request) {
	after, ok := number(w, r, "after")
	if !ok {
		return
	}
	kinds, servers := kindsOf(r), r.URL.Query()["server"]
	answerValue(h, w, r, func() api.EventSummaries {
		stats := h.client.Stats() // before the summaries: nothing is left out by the next request
		all, dropped := h.client.History().Summaries(after)
		answer := api.EventSummaries{Instance: h.instance, Seq: stats.Events, Summaries: make([]api.EventSummary, 0, len(all)), Dropped: dropped, Started: stats.Started}
		for i := range all {
			if selects(kinds, all[i].Last.Kind) && selects(servers, all[i].Last.Server) {
				answer.Summaries = append(answer.Summaries, h.summaryOf(&all[i]))
			}
		}
		return answer
	})
}

// firstEvent returns the number of the event after which a request asks for events.
func (h *Handler) firstEvent(w http.ResponseWriter, r *http.Request) (after uint64, ok bool) {
	last, ok := number(w, r, "last")
	if !ok {
		return 0, false
	}
	if seen := h.client.Stats().Events; last > 0 && seen > last {
		return seen - last, true
	}
	return number(w, r, "after")
}

// kindsOf returns the kinds of events that a request selects; none means all.
func kindsOf(r *http.Request) (kinds []mcpvisor.EventKind) {
	for _, kind := range r.URL.Query()["kind"] {
		kinds = append(kinds, mcpvisor.EventKind(kind))
	}
	return kinds
}

// statsOf sums up what is known about the calls of tools.
func statsOf(all []monitor.ToolStats) []api.ToolStats {
	out := make([]api.ToolStats, 0, len(all))
	for i := range all {
		s := &all[i]
		if s.Failed == nil {
			s.Failed = map[mcpvisor.ErrorKind]int64{}
		}
		out = append(out, api.ToolStats{Server: s.Server, Name: s.Name, OriginalName: s.OriginalName, Calls: s.Calls,
			ToolErrors: s.ToolErrors, Failed: s.Failed, Unknown: s.Unknown, Refused: s.Refused, Mean: s.Duration.Mean(),
			P50: s.Duration.Quantile(0.5), P95: s.Duration.Quantile(0.95), P99: s.Duration.Quantile(0.99), Max: s.Duration.Max})
	}
	return out
}

func (h *Handler) getServer(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	status, found := h.client.ServerStatus(name)
	if !found {
		h.writeUnknownServer(w, name)
		return
	}
	answerValue(h, w, r, func() api.Server {
		h.statusInTerms(&status)
		stderr, _ := h.client.Stderr(name)
		return api.Server{Status: status, Stderr: stderr, Tools: statsOf(h.client.ToolStats(name))}
	})
}

// getStderr answers with the lines after ?after=N, for followers. A follower begins again
// with 0 when the epoch changes.
func (h *Handler) getStderr(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	after, ok := number(w, r, "after")
	if !ok {
		return
	}
	stderr, found := h.client.Stderr(name)
	if !found {
		h.writeUnknownServer(w, name)
		return
	}
	follows := r.URL.Query().Has("after")
	answerValue(h, w, r, func() api.Stderr {
		answer := api.Stderr{ServerStderr: stderr}
		if follows {
			answer.First = nil
			answer.Lines, answer.Dropped = stderr.After(int64(min(after, uint64(stderr.Total))))
		}
		return answer
	})
}

func (h *Handler) writeUnknownServer(w http.ResponseWriter, name string) {
	similar := nearest.Names(name, h.client.Servers())
	message := "no server of that name is registered"
	if len(similar) > 0 {
		message += "; did you mean " + similar[0] + "?"
	}
	writeError(w, http.StatusNotFound, api.ErrorDetail{Kind: mcpvisor.ErrUnknownServer, Server: name, Message: message, Similar: similar})
}

func (h *Handler) getUsage(w http.ResponseWriter, r *http.Request) {
	after, ok := number(w, r, "after")
	if !ok {
		return
	}
	answerValue(h, w, r, func() api.Usage {
		kept, seq := h.usage.Read(time.Now(), 0, func() []usage.Target { return usage.Of(h.client.Status()) })
		answer := api.Usage{Instance: h.instance, Seq: seq, Servers: make([]api.ServerUsage, 0, len(kept))}
		for _, name := range h.client.Servers() {
			if samples := kept[name]; len(samples) > 0 {
				answer.Servers = append(answer.Servers, usageOf(name, samples, after))
			}
		}
		return answer
	})
}

// usageOf describes the samples of a server, which are not empty.
func usageOf(name string, samples []usage.Sample, after uint64) api.ServerUsage {
	last := samples[len(samples)-1]
	now := sampleOf(last)
	u := api.ServerUsage{Server: name, CPU: now.CPU, MemoryBytes: now.MemoryBytes, Processes: last.Processes}
	var calls, failed, recent int64
	var over time.Duration
	for _, s := range samples {
		calls, failed = calls+s.Calls, failed+s.Failed
		if last.At.Sub(s.At) < time.Minute {
			recent, over = recent+s.Calls, over+s.Over
		}
		if s.Seq > after {
			u.Samples = append(u.Samples, sampleOf(s))
		}
	}
	if over > 0 {
		rate := float64(recent) / over.Minutes()
		u.CallsPerMinute = &rate
	}
	if calls > 0 {
		share := min(float64(failed)/float64(calls), 1) // a call may fail in a later sample than it began in
		u.ErrorShare = &share
	}
	return u
}

func sampleOf(s usage.Sample) api.UsageSample {
	one := api.UsageSample{Seq: s.Seq, At: s.At.Round(0), OverNs: s.Over, Calls: s.Calls, Failed: s.Failed}
	if s.Known {
		one.MemoryBytes = &s.Memory
		if s.Over > 0 {
			one.CPU = &s.CPU
		}
	}
	return one
}

// Bounds of a search. The texts of tools are of servers, and there may be thousands.
const (
	maxSearchBytes = 200     // of the words; longer ones are an error
	maxFound       = 50      // entries that are listed without ?limit; more are counted
	maxListed      = 10_000  // entries that are listed with ?limit
	searchedBytes  = 1 << 10 // of a description, from its beginning
	shownBytes     = 200     // of a description that is listed
)

func (h *Handler) getSearch(w http.ResponseWriter, r *http.Request) {
	text, kinds := strings.Join(r.URL.Query()["q"], " "), r.URL.Query()["kind"]
	words := strings.Fields(strings.ToLower(text))
	limit, ok := number(w, r, "limit")
	if !ok {
		return
	}
	if len(words) == 0 && limit == 0 || len(text) > maxSearchBytes {
		writeError(w, http.StatusBadRequest, api.ErrorDetail{Kind: mcpvisor.ErrInvalid, Message: "q must have words to search for, of at most 200 bytes; it may be left out with limit"})
		return
	}
	if i := slices.IndexFunc(kinds, func(kind string) bool { return !slices.Contains([]string{"tools", "resources", "prompts"}, kind) }); i >= 0 {
		writeError(w, http.StatusBadRequest, api.ErrorDetail{Kind: mcpvisor.ErrInvalid, Message: fmt.Sprintf("kind=%q is not known; the kinds are tools, resources and prompts", display.Shorten(kinds[i], shownBytes))})
		return
	}
	if len(kinds) == 0 {
		kinds = []string{"tools"}
	}
	left := min(cmp.Or(limit, maxFound), maxListed)
	answerValue(h, w, r, func() api.Search {
		found := api.Search{Tools: []api.FoundTool{}}
		// take adds an entry that fits to its list, while there is room. It returns false when no more are wanted.
		take := func(kind string, list *[]api.FoundTool, one api.FoundTool, title string) bool {
			if !slices.Contains(kinds, kind) || r.Context().Err() != nil {
				return false
			}
			if h.opts.program.Mask != nil {
				for _, text := range []*string{&one.Name, &one.OriginalName, &title, &one.Description} {
					*text = h.opts.program.Mask(one.Server, *text)
				}
			}
			one.Description = one.Description[:min(len(one.Description), searchedBytes)]
			switch {
			case !hasWords(words, one.Server+" "+one.Name+" "+one.OriginalName+" "+title+" "+one.Description):
			case left == 0:
				found.More++
			default:
				left--
				one.Description = display.Shorten(display.Line(one.Description), shownBytes)
				*list = append(*list, one)
			}
			return true
		}
		for t := range h.client.AllTools() {
			if !take("tools", &found.Tools, api.FoundTool{Server: t.Server, Name: t.Name, OriginalName: t.OriginalName, Description: t.Definition.Description, Tokens: t.TokenEstimate()}, t.Definition.Title) {
				break
			}
		}
		for _, x := range h.client.Resources() {
			take("resources", &found.Resources, api.FoundTool{Server: x.Server, Name: x.Definition.Name, OriginalName: x.URI, Description: x.Definition.Description}, x.Definition.Title)
		}
		for _, x := range h.client.ResourceTemplates() {
			take("resources", &found.Resources, api.FoundTool{Server: x.Server, Name: x.Definition.Name, OriginalName: x.URITemplate, Description: x.Definition.Description}, x.Definition.Title)
		}
		for _, x := range h.client.Prompts() {
			take("prompts", &found.Prompts, api.FoundTool{Server: x.Server, Name: x.Name, OriginalName: x.OriginalName, Description: x.Definition.Description}, x.Definition.Title)
		}
		return found
	})
}

// hasWords reports whether a text has all words, which are in lower case.
func hasWords(words []string, text string) bool {
	text = strings.ToLower(text)
	for _, word := range words {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}
