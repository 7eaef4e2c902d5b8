package web

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/monitor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// attentionOrder orders the kinds within one severity. What only a person can do comes first.
var attentionOrder = []api.AttentionKind{api.AttentionApproval, api.AttentionUnauthorized, api.AttentionConfiguration, api.AttentionRecords, api.AttentionFleet, api.AttentionGroup, api.AttentionEvicted, api.AttentionParked, api.AttentionFlapping, api.AttentionBackoff,
	api.AttentionUnknownOutcome, api.AttentionWaiting, api.AttentionSlowStart, api.AttentionSlowCalls, api.AttentionQueued, api.AttentionStandby, api.AttentionLock, api.AttentionCatalog,
	api.AttentionRestarted, api.AttentionDiscarded, api.AttentionDeprecated}

// attention lists what an operator should look at, the most urgent entry first. It is the
// only place that decides this about servers: the page, the terminal view and the commands show
// it.
func (h *Handler) attention(at time.Time, servers []mcpvisor.ServerStatus, groups []mcpvisor.GroupStatus) []api.Attention {
	f := facts{at: at, unknown: unknownOutcomes(at, h.client.History().UnknownCalls()), slow: slowCalls(at, h.client.CallsInFlight())}
	all := f.failedGroups(servers, groups)
	for i := range servers {
		all = append(all, f.about(&servers[i])...)
	}
	if h.opts.program.Attention != nil {
		all = append(all, h.opts.program.Attention()...)
	}
	all = append(all, h.awaited()...)
	sortAttention(all)
	all = condense(all)
	h.attentionInTerms(all)
	return all
}

// condense joins the findings about one server into one entry, which the most urgent one leads, and then
// the entries of several servers that have the same trouble.
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
		if key := (trouble{a.Kind, shape(a)}); a.Server != "" {
			same[key] = append(same[key], a)
		}
	}
	grouped := list[:0]
	for _, a := range list {
		key := trouble{a.Kind, shape(a)}
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

var timesEnded = regexp.MustCompile(`has ended \d+ times`)

// shape is the text of an entry without what differs between servers with one cause: their names, and
// how many times they have ended. Short names are parts of other words.
func shape(a api.Attention) string {
	text := a.Text
	if len(a.Server) > 2 {
		text = strings.ReplaceAll(text, a.Server, "…")
	}
	return timesEnded.ReplaceAllString(text, "has ended several times")
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

// together makes one entry of the same trouble of several servers. What else was found about some
// of them follows, with their names.
func together(members []api.Attention) api.Attention {
	a := members[0]
	if slices.ContainsFunc(members, func(m api.Attention) bool { return m.Text != a.Text }) {
		a.Text = shape(a)
	}
	a.Server, a.Servers, a.Since, a.More = "", nil, nil, nil
	a.Text = fmt.Sprintf("%d servers: %s", len(members), a.Text)
	texts, of := []string(nil), map[string][]string{} // of has the names of the servers with a text
	for _, m := range members {
		a.Servers = append(a.Servers, m.Server)
		for _, text := range m.More {
			if of[text] == nil {
				texts = append(texts, text)
			}
			of[text] = append(of[text], m.Server)
		}
	}
	for _, text := range texts[:min(len(texts), maxMore)] {
		names := strings.Join(of[text], ", ")
		switch n := len(of[text]); {
		case n == len(members):
			names = "each"
		case n > maxMore:
			names = display.Count(n, "server")
		}
		a.More = append(a.More, names+": "+text)
	}
	if left := len(texts) - maxMore; left > 0 {
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

const (
	// recently is how long an end or a call of unknown outcome is worth mentioning.
	recently = 10 * time.Minute
	// noStandby is how long a ready server may lack its standby.
	noStandby = 30 * time.Second
	// flappingEnds ends within flappingWindow are flapping.
	flappingEnds   = 3
	flappingWindow = 5 * time.Minute
	// slowStart is how long a start takes until it is called slow, and slowCall a call.
	slowStart = 10 * time.Second
	slowCall  = 30 * time.Second
)

// facts are what the assessment knows beside the statuses, by server.
type facts struct {
	at      time.Time
	unknown map[string]callGroup
	slow    map[string]callGroup
	// states are those of the servers. failed has the servers of groups that have failed. known has the names of
	// servers and groups.
	states map[string]supervisor.State
	failed map[string]bool
	known  map[string]bool
}

// failedGroups notes what concerns several servers, and returns an entry for each group that has failed as one. What has
// failed with the group around it has none of its own.
func (f *facts) failedGroups(servers []mcpvisor.ServerStatus, groups []mcpvisor.GroupStatus) []api.Attention {
	f.states, f.failed, f.known = map[string]supervisor.State{}, map[string]bool{}, map[string]bool{}
	for i := range servers {
		f.states[servers[i].Name], f.known[servers[i].Name] = servers[i].State, true
	}
	byName := map[string]*mcpvisor.GroupStatus{}
	for i := range groups {
		byName[groups[i].Name], f.known[groups[i].Name] = &groups[i], true
	}
	hasFailed := func(g *mcpvisor.GroupStatus) bool { return g != nil && (g.State == "parked" || g.State == "given up") }
	var serversOf func(g *mcpvisor.GroupStatus) []string
	serversOf = func(g *mcpvisor.GroupStatus) (names []string) {
		for _, m := range g.Members {
			if nested := byName[m]; nested != nil {
				names = append(names, serversOf(nested)...)
			} else if f.known[m] {
				names = append(names, m)
			}
		}
		return names
	}
	all := []api.Attention{}
	for i := range groups {
		g := &groups[i]
		if !hasFailed(g) || hasFailed(byName[g.Parent]) {
			continue
		}
		text := g.Cause.Error()
		if of := g.Cause.Unwrap(); of != nil { // of the member that failed
			text += "; " + of.Error()
		}
		a := api.Attention{Group: g.Name, Servers: serversOf(g), Kind: api.AttentionGroup, Severity: api.SeverityError, Text: display.Line(text), Action: "fix the cause, then start the group " + g.Name}
		if g.State == "parked" {
			a.Severity, a.Action = api.SeverityWarning, "fix the cause; start the group "+g.Name+" to try at once"
		}
		for _, name := range a.Servers {
			f.failed[name] = true
		}
		all = append(all, a)
	}
	return all
}

// blocking names what a server waits for that does not come by itself, and says why.
func (f *facts) blocking(s *mcpvisor.ServerStatus) (all []string) {
	for _, name := range s.WaitsFor {
		switch {
		case !f.known[name]:
			all = append(all, name+", which is not registered")
		case f.states[name] == supervisor.StateStopped:
			all = append(all, name+", which an operator has stopped")
		}
	}
	return all
}

// callGroup counts calls of one server. first is the oldest of them.
type callGroup struct {
	count  int
	target string
	first  time.Time
}

// add counts a call. Calls come in the order in which they ended, or in none.
func (g callGroup) add(target string, began time.Time) callGroup {
	if g.count++; g.count == 1 || began.Before(g.first) {
		g.target, g.first = target, began
	}
	return g
}

// unknownOutcomes groups recent calls that failed and may have been executed.
func unknownOutcomes(at time.Time, recent []monitor.CallRecord) map[string]callGroup {
	groups := map[string]callGroup{}
	for i := range recent {
		if c := &recent[i]; c.Outcome == mcpvisor.OutcomeUnknown && at.Sub(c.Began.Add(c.Took)) < recently {
			groups[c.Server] = groups[c.Server].add(c.Target, c.Began)
		}
	}
	return groups
}

// slowCalls groups calls that have been in flight for long.
func slowCalls(at time.Time, inFlight []monitor.CallInFlight) map[string]callGroup {
	groups := map[string]callGroup{}
	for i := range inFlight {
		if c := &inFlight[i]; at.Sub(c.Began) >= slowCall {
			target := c.Target
			if target == "" {
				target = c.Method
			}
			groups[c.Server] = groups[c.Server].add(target, c.Began)
		}
	}
	return groups
}

func (f *facts) about(s *mcpvisor.ServerStatus) (all []api.Attention) {
	add := func(kind api.AttentionKind, severity api.Severity, since *time.Time, action, format string, args ...any) {
		all = append(all, api.Attention{Server: s.Name, Kind: kind, Severity: severity, Since: since, Action: action,
			Text: display.Line(fmt.Sprintf(format, args...))})
	}
	f.state(s, add)
	f.calls(s, add)
	session(s, add)
	return all
}

// addFunc adds one entry to the list.
type addFunc func(kind api.AttentionKind, severity api.Severity, since *time.Time, action, format string, args ...any)

// state assesses the state of the server, and its recent ends.
func (f *facts) state(s *mcpvisor.ServerStatus, add addFunc) {
	began, entered := api.Since(s), s.Since // copies: the caller may change the status
	since := &began
	ends, last := f.recentEnds(s)
	flapping := ends >= flappingEnds
	switch s.State {
	case supervisor.StateEvicted:
		if f.failed[s.Name] && s.LastCause.Asked() {
			return // its group has an entry
		}
		add(api.AttentionEvicted, api.SeverityError, since, evictedAction(s), "%s; given up%s", causeText(s), afterAttempts(s))
	case supervisor.StateUnauthorized:
		action := "correct its credentials, then restart it" + configuredIn(s)
		if required := (*mcpvisor.AuthRequired)(nil); errors.As(s.LastCause, &required) { // OAuth is configured
			action = "authorize the client (Client.Authorize, or mcpvisor authorize " + s.Name + "), or " + action
		}
		add(api.AttentionUnauthorized, api.SeverityError, since, action, "requires authorization: %s", causeText(s))
	case supervisor.StateParked:
		add(api.AttentionParked, api.SeverityWarning, since, cmp.Or(variableAction(s), "fix the cause; restart it to try at once with all attempts"), "%s; its attempts are spent, and it is tried slowly", causeText(s))
	case supervisor.StateBackoff:
		if flapping {
			break // one entry is enough
		}
		add(api.AttentionBackoff, api.SeverityWarning, since, cmp.Or(variableAction(s), "nothing, if it recovers; restart it to try at once"), "%s; waits for its next attempt", causeText(s))
	case supervisor.StateConnecting, supervisor.StateDiscovering:
		switch {
		case f.at.Sub(entered) >= slowStart:
			add(api.AttentionSlowStart, api.SeverityWarning, &entered, "look at its stderr; Timeouts.Start bounds the start", "is still %s", s.State)
		case s.LastCause != nil && !flapping && f.at.Sub(began) >= slowStart:
			add(api.AttentionBackoff, api.SeverityWarning, since, cmp.Or(variableAction(s), "nothing, if it recovers"), "%s; is being tried again", causeText(s))
		}
	case supervisor.StateWaiting:
		if blocking := f.blocking(s); len(blocking) > 0 && f.at.Sub(entered) >= slowStart {
			add(api.AttentionWaiting, api.SeverityWarning, &entered, "start or register what it waits for, or remove it from what the server comes after", "waits for %s", strings.Join(blocking, "; "))
		}
	default:
	}
	if s.State == supervisor.StateReady && s.WantsStandby && s.Standby == nil && f.at.Sub(s.Since) >= noStandby {
		add(api.AttentionStandby, api.SeverityWarning, nil, "look at its events for the cause; until it has one, its next end is an outage", "has no standby")
	}
	switch {
	case flapping && s.State != supervisor.StateEvicted:
		add(api.AttentionFlapping, api.SeverityWarning, last, "look at the causes in its history", "%s; has ended %d times within %d min", causeText(s), ends, int(flappingWindow.Minutes()))
	case s.State == supervisor.StateReady && last != nil && f.at.Sub(*last) < recently:
		add(api.AttentionRestarted, api.SeverityNotice, last, "nothing; the cause is in its history", "ended and is ready again: %s", causeText(s))
	}
}

// recentEnds counts the ends within flappingWindow that were not requested, and returns the
// time of the last one.
func (f *facts) recentEnds(s *mcpvisor.ServerStatus) (ends int, last *time.Time) {
	for i := range s.History {
		one := &s.History[i]
		if one.Cause.Asked() {
			continue
		}
		ended := one.Ended
		last = &ended
		if f.at.Sub(one.Ended) < flappingWindow {
			ends++
		}
	}
	return ends, last
}

func (g callGroup) oldest() string {
	if g.count == 1 {
		return ": " + g.target
	}
	return ", the oldest is " + g.target
}

func (f *facts) calls(s *mcpvisor.ServerStatus, add addFunc) {
	if g, found := f.unknown[s.Name]; found {
		add(api.AttentionUnknownOutcome, api.SeverityWarning, &g.first, "check whether they had an effect before they are repeated", "%s of unknown outcome in the last %d min%s",
			display.Count(g.count, "call"), int(recently.Minutes()), g.oldest())
	}
	if g, found := f.slow[s.Name]; found {
		add(api.AttentionSlowCalls, api.SeverityWarning, &g.first, "look at the server, or cancel the calls on the page; Timeouts.Call and Timeouts.CallTotal bound them", "%s in flight for more than %d s%s",
			display.Count(g.count, "request"), int(slowCall.Seconds()), g.oldest())
	}
	if s.Calls.Queued > 0 {
		add(api.AttentionQueued, api.SeverityWarning, nil, "raise Limits.MaxInFlight if the server can do more at once", "%s behind Limits.MaxInFlight, %d in flight",
			waits(s.Calls.Queued), s.Calls.InFlight)
	}
}

func waits(n int64) string {
	if n == 1 {
		return "1 call waits"
	}
	return fmt.Sprintf("%d calls wait", n)
}

func session(s *mcpvisor.ServerStatus, add addFunc) {
	if i := slices.IndexFunc(s.Catalog.Warnings, func(w mcpvisor.Warning) bool { return w.Guarded }); i >= 0 {
		add(api.AttentionLock, api.SeverityWarning, nil, "see what differs: mcpvisor lock diff "+s.Name+"; approve it, or repair the server", "%s", s.Catalog.Warnings[i])
	} else if n := len(s.Catalog.Warnings); n > 0 {
		add(api.AttentionCatalog, api.SeverityWarning, nil, "correct the server, or raise the limit that the warning names", "%s about its lists: %s", display.Count(n, "warning"), s.Catalog.Warnings[0])
	}
	if s.Session == nil {
		return
	}
	d := &s.Session.Discarded
	if d.Oversize > 0 {
		add(api.AttentionDiscarded, api.SeverityWarning, nil, "raise Limits.MaxMessageBytes, or let the server send less", "%s longer than Limits.MaxMessageBytes", display.Count(d.Oversize, "message"))
	}
	if d.Dropped > 0 {
		add(api.AttentionDiscarded, api.SeverityNotice, nil, "let the server send less, such as a higher log level", "%s came faster than they could be handled", display.Count(d.Dropped, "message"))
	}
	if d.Malformed > 0 {
		text := ""
		if s.Session.StrayOutput.Text != "" {
			text = fmt.Sprintf(", beginning with %q", s.Session.StrayOutput.Text)
		}
		add(api.AttentionDiscarded, api.SeverityNotice, nil, "let the server log to stderr: stdout is for JSON-RPC", "%s on stdout not JSON-RPC%s", display.Count(d.Malformed, "line"), text)
	}
	if d.Unmatched > 0 {
		add(api.AttentionDiscarded, api.SeverityNotice, nil, "compare the time that its calls take with their timeouts", "%s to no pending request, such as one after a timeout", display.Count(d.Unmatched, "answer"))
	}
	if s.Session.Deprecated != "" {
		add(api.AttentionDeprecated, api.SeverityNotice, nil, "update the server", "%s", s.Session.Deprecated)
	}
}

// afterAttempts says how many attempts were made, if any.
func afterAttempts(s *mcpvisor.ServerStatus) string {
	if s.Attempt == 0 {
		return ""
	}
	return " " + display.AfterRestarts(s.Attempt, s.MaxAttempts)
}

func evictedAction(s *mcpvisor.ServerStatus) string {
	if action := variableAction(s); action != "" {
		return action
	}
	if s.LastCause != nil && s.LastCause.Permanent {
		return "a retry alone cannot help: correct its configuration and register it again, or install what is missing and restart it" + configuredIn(s)
	}
	return "fix the cause, then restart it"
}

// configuredIn says where a server is configured, if that is known.
func configuredIn(s *mcpvisor.ServerStatus) string {
	if s.Origin == "" {
		return ""
	}
	return "; it is configured in " + s.Origin
}

// missingVariable finds the variable that a message misses: "variable X is not set", "X is
// required", "missing X". Only names with an underscore count.
var missingVariable = regexp.MustCompile(`\b([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)\b.{0,40}\b(?:(?:is|are|was) (?:not set|required|missing|not defined|undefined|empty)|must be (?:set|provided|defined)|not (?:set|found|provided|defined)|required|missing)|(?i:missing|required?|set|provide|define)\b[^.]{0,40}?\b([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)\b`)

// maxCauseBytes is how much of a cause is searched for a variable.
const maxCauseBytes = 2 << 10

// variableAction says which variable to set, and where, if the cause names one.
func variableAction(s *mcpvisor.ServerStatus) string {
	found := missingVariable.FindStringSubmatch(display.Prefix(causeText(s), maxCauseBytes))
	if found == nil {
		return ""
	}
	name := cmp.Or(found[1], found[2])
	if s.LastCause != nil && s.LastCause.Kind == supervisor.CauseConfig {
		return "set the variable " + name + " where this program is started, or write its value in the configuration" + configuredIn(s)
	}
	return "set the variable " + name + " in the environment of the server, then restart it" + configuredIn(s)
}

// causeText is the last cause in one line, without stderr.
func causeText(s *mcpvisor.ServerStatus) string {
	if s.LastCause == nil {
		return "no cause is known"
	}
	return s.LastCause.Error()
}
