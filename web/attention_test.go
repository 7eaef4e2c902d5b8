package web

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/internal/usage"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/monitor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// at is the time of the assessments below.
var at = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return at.Add(-d) }

// ended are incarnations that ended some time ago.
func ended(kind supervisor.CauseKind, times ...time.Duration) (history []mcpvisor.Incarnation) {
	for _, d := range times {
		history = append(history, mcpvisor.Incarnation{Ended: ago(d), Cause: &supervisor.Cause{Kind: kind}})
	}
	return history
}

// Of what is an error, that comes first which only a person can do.
func TestAttention_persons_first(t *testing.T) {
	all := []api.Attention{{Server: "a", Kind: api.AttentionEvicted, Severity: api.SeverityError}, {Server: "b", Kind: api.AttentionParked, Severity: api.SeverityWarning},
		{Kind: api.AttentionConfiguration, Severity: api.SeverityError}, {Server: "c", Kind: api.AttentionUnauthorized, Severity: api.SeverityError}}
	sortAttention(all)
	require.Equal(t, []api.AttentionKind{api.AttentionUnauthorized, api.AttentionConfiguration, api.AttentionEvicted, api.AttentionParked}, []api.AttentionKind{all[0].Kind, all[1].Kind, all[2].Kind, all[3].Kind})
}

// A missing variable is named, with where to set it.
func TestAttention_names_the_variable(t *testing.T) {
	for message, want := range map[string]string{
		"Error: BRAVE_API_KEY environment variable is required (exit status 1)":              "set the variable BRAVE_API_KEY in the environment of the server, then restart it; it is configured in .mcp.json:7",
		"missing GITHUB_PERSONAL_ACCESS_TOKEN (exit status 1)":                               "set the variable GITHUB_PERSONAL_ACCESS_TOKEN in the environment of the server, then restart it; it is configured in .mcp.json:7",
		"Please set SLACK_BOT_TOKEN and SLACK_TEAM_ID environment variables (exit status 1)": "set the variable SLACK_BOT_TOKEN in the environment of the server, then restart it; it is configured in .mcp.json:7",
		"Error: connect ECONNREFUSED 10.0.0.1:443 (exit status 1)":                           "",
		"ERR_MODULE_NOT_FOUND: Cannot find module 'x' (exit status 1)":                       "",
	} {
		s := mcpvisor.ServerStatus{Name: "s", State: supervisor.StateEvicted, Origin: ".mcp.json:7", LastCause: &supervisor.Cause{Kind: supervisor.CauseExit, Message: message}}
		require.Equal(t, want, variableAction(&s), message)
	}
	s := mcpvisor.ServerStatus{Origin: ".mcp.json:7", LastCause: &supervisor.Cause{Kind: supervisor.CauseConfig, Permanent: true, Message: "environment variable API_KEY is not set; set it before this program starts, or write ${API_KEY:-default}"}}
	require.Equal(t, "set the variable API_KEY where this program is started, or write its value in the configuration; it is configured in .mcp.json:7", evictedAction(&s))
}

func TestAttention_of_each_kind(t *testing.T) {
	cause := &supervisor.Cause{Kind: supervisor.CauseExit, Message: "exited with status 3", Stderr: []string{"not in the text"}}
	session := func(change func(*mcpvisor.SessionInfo)) mcpvisor.ServerStatus {
		info := new(mcpvisor.SessionInfo)
		change(info)
		return mcpvisor.ServerStatus{State: supervisor.StateReady, Session: info}
	}
	discarded := func(d mcpvisor.Discarded) mcpvisor.ServerStatus {
		return session(func(i *mcpvisor.SessionInfo) { i.Discarded = d })
	}
	slow := facts{slow: slowCalls(at, []monitor.CallInFlight{{Server: "s", Method: "tools/list", Began: ago(40 * time.Second)},
		{Server: "s", Target: "index", Began: ago(2 * time.Minute)}, {Server: "s", Target: "new", Began: ago(time.Second)}})}
	unknown := facts{unknown: unknownOutcomes(at, []monitor.CallRecord{{Server: "s", Target: "old", Outcome: mcpvisor.OutcomeUnknown, Began: ago(time.Hour)},
		{Server: "s", Target: "pay", Outcome: mcpvisor.OutcomeUnknown, Began: ago(time.Minute)}, {Server: "s", Target: "ok", Began: ago(time.Minute)},
		{Server: "s", Target: "busy", Outcome: mcpvisor.OutcomeNotSent, Began: ago(time.Minute)}})}
	unauthorized := func(err error) string {
		f := facts{at: at}
		return f.about(&mcpvisor.ServerStatus{Name: "s", State: supervisor.StateUnauthorized, LastCause: &supervisor.Cause{Kind: supervisor.CauseAuth, Err: err}})[0].Action
	}
	require.Contains(t, unauthorized(&mcpvisor.AuthRequired{}), "authorize s")
	require.NotContains(t, unauthorized(nil), "authorize", "without OAuth there is nothing to authorize")
	for name, x := range map[string]struct {
		status   mcpvisor.ServerStatus
		facts    facts
		kind     api.AttentionKind // empty: no entry
		severity api.Severity
		text     string
		since    time.Duration
	}{
		"ready":      {status: mcpvisor.ServerStatus{State: supervisor.StateReady, Since: ago(time.Hour)}},
		"connecting": {status: mcpvisor.ServerStatus{State: supervisor.StateConnecting, Since: ago(time.Second)}},
		"evicted": {mcpvisor.ServerStatus{State: supervisor.StateEvicted, Since: ago(time.Hour), LastCause: cause, Attempt: 3, MaxAttempts: 3}, facts{},
			api.AttentionEvicted, api.SeverityError, "exited with status 3; given up after 3 of 3 restarts", time.Hour},
		"unauthorized": {mcpvisor.ServerStatus{State: supervisor.StateUnauthorized, Since: ago(time.Hour), LastCause: cause}, facts{},
			api.AttentionUnauthorized, api.SeverityError, "requires authorization: exited with status 3", time.Hour},
		"parked": {mcpvisor.ServerStatus{State: supervisor.StateParked, Since: ago(time.Hour), LastCause: cause}, facts{},
			api.AttentionParked, api.SeverityWarning, "exited with status 3; its attempts are spent, and it is tried slowly", time.Hour},
		"backoff": {mcpvisor.ServerStatus{State: supervisor.StateBackoff, Since: ago(time.Second), LastCause: cause}, facts{},
			api.AttentionBackoff, api.SeverityWarning, "exited with status 3; waits for its next attempt", time.Second},
		"flapping": {mcpvisor.ServerStatus{State: supervisor.StateBackoff, LastCause: cause, History: ended(supervisor.CauseExit, 6*time.Minute, 4*time.Minute, 3*time.Minute, time.Minute)}, facts{},
			api.AttentionFlapping, api.SeverityWarning, "exited with status 3; has ended 3 times within 5 min", time.Minute},
		"restarted": {mcpvisor.ServerStatus{State: supervisor.StateReady, LastCause: cause, History: ended(supervisor.CauseExit, 9*time.Minute)}, facts{},
			api.AttentionRestarted, api.SeverityNotice, "ended and is ready again: exited with status 3", 9 * time.Minute},
		"restarted long ago":   {status: mcpvisor.ServerStatus{State: supervisor.StateReady, LastCause: cause, History: ended(supervisor.CauseExit, time.Hour)}},
		"restarted on request": {status: mcpvisor.ServerStatus{State: supervisor.StateReady, History: ended(supervisor.CauseRestart, 3, 2, 1)}},
		"asleep":               {status: mcpvisor.ServerStatus{State: supervisor.StateAsleep, Since: ago(time.Hour), History: ended(supervisor.CauseRequested, 3, 2, 1)}},
		"resting":              {status: mcpvisor.ServerStatus{State: supervisor.StateResting, Since: ago(time.Hour), LastCause: &supervisor.Cause{Kind: supervisor.CauseRequested}}},
		"stopped":              {status: mcpvisor.ServerStatus{State: supervisor.StateStopped, Since: ago(time.Hour), LastCause: cause}},
		"in its turn":          {status: mcpvisor.ServerStatus{State: supervisor.StateWaiting, Since: ago(time.Hour), WaitsFor: []string{"down"}}, facts: facts{known: map[string]bool{"down": true}}},
		"waits since a moment": {status: mcpvisor.ServerStatus{State: supervisor.StateWaiting, Since: ago(time.Second), WaitsFor: []string{"later"}}},
		"waits": {mcpvisor.ServerStatus{State: supervisor.StateWaiting, Since: ago(time.Minute), WaitsFor: []string{"db", "down", "later"}},
			facts{known: map[string]bool{"db": true, "down": true}, states: map[string]supervisor.State{"db": supervisor.StateStopped, "down": supervisor.StateBackoff}},
			api.AttentionWaiting, api.SeverityWarning, "waits for db, which an operator has stopped; later, which is not registered", time.Minute},
		"slow start": {mcpvisor.ServerStatus{State: supervisor.StateDiscovering, Since: ago(11 * time.Second)}, facts{},
			api.AttentionSlowStart, api.SeverityWarning, "is still discovering", 11 * time.Second},
		"parked for long, tried again": {mcpvisor.ServerStatus{State: supervisor.StateParked, Since: ago(time.Second), DownSince: new(ago(time.Hour)), LastCause: cause}, facts{},
			api.AttentionParked, api.SeverityWarning, "exited with status 3; its attempts are spent, and it is tried slowly", time.Hour},
		"down for long, tried again": {mcpvisor.ServerStatus{State: supervisor.StateConnecting, Since: ago(time.Second), DownSince: new(ago(time.Hour)), LastCause: cause}, facts{},
			api.AttentionBackoff, api.SeverityWarning, "exited with status 3; is being tried again", time.Hour},
		"down for a moment, tried again": {status: mcpvisor.ServerStatus{State: supervisor.StateConnecting, Since: ago(time.Second), DownSince: new(ago(2 * time.Second)), LastCause: cause}},
		"unknown outcome": {mcpvisor.ServerStatus{State: supervisor.StateReady}, unknown,
			api.AttentionUnknownOutcome, api.SeverityWarning, "1 call of unknown outcome in the last 10 min: pay", time.Minute},
		"slow calls": {mcpvisor.ServerStatus{State: supervisor.StateReady}, slow,
			api.AttentionSlowCalls, api.SeverityWarning, "2 requests in flight for more than 30 s, the oldest is index", 2 * time.Minute},
		"standby": {mcpvisor.ServerStatus{State: supervisor.StateReady, Since: ago(time.Minute), WantsStandby: true}, facts{},
			api.AttentionStandby, api.SeverityWarning, "has no standby", 0},
		"standby starting": {status: mcpvisor.ServerStatus{State: supervisor.StateReady, Since: ago(time.Second), WantsStandby: true}},
		"standby ready":    {status: mcpvisor.ServerStatus{State: supervisor.StateReady, Since: ago(time.Minute), WantsStandby: true, Standby: new(mcpvisor.SessionInfo)}},
		"queued": {mcpvisor.ServerStatus{State: supervisor.StateReady, Calls: mcpvisor.CallCounts{Queued: 2, InFlight: 64}}, facts{},
			api.AttentionQueued, api.SeverityWarning, "2 calls wait behind Limits.MaxInFlight, 64 in flight", 0},
		"catalog": {mcpvisor.ServerStatus{State: supervisor.StateReady, Catalog: mcpvisor.CatalogInfo{Warnings: []mcpvisor.Warning{{List: "tools", Text: "no\nname"}}}}, facts{},
			api.AttentionCatalog, api.SeverityWarning, "1 warning about its lists: tools: no name", 0},
		"lock": {mcpvisor.ServerStatus{State: supervisor.StateReady, Catalog: mcpvisor.CatalogInfo{Warnings: []mcpvisor.Warning{{List: "tools", Text: "other"}, {List: "tools", Text: "x differs", Guarded: true}}}}, facts{},
			api.AttentionLock, api.SeverityWarning, "tools: x differs", 0},
		"oversize":  {discarded(mcpvisor.Discarded{Oversize: 1}), facts{}, api.AttentionDiscarded, api.SeverityWarning, "1 message longer than Limits.MaxMessageBytes", 0},
		"dropped":   {discarded(mcpvisor.Discarded{Dropped: 5}), facts{}, api.AttentionDiscarded, api.SeverityNotice, "5 messages came faster than they could be handled", 0},
		"unmatched": {discarded(mcpvisor.Discarded{Unmatched: 1}), facts{}, api.AttentionDiscarded, api.SeverityNotice, "1 answer to no pending request, such as one after a timeout", 0},
		"malformed": {session(func(i *mcpvisor.SessionInfo) { i.Discarded.Malformed, i.StrayOutput.Text = 2, "hello" }), facts{},
			api.AttentionDiscarded, api.SeverityNotice, `2 lines on stdout not JSON-RPC, beginning with "hello"`, 0},
		"deprecated": {session(func(i *mcpvisor.SessionInfo) { i.Deprecated = "HTTP+SSE is deprecated" }), facts{},
			api.AttentionDeprecated, api.SeverityNotice, "HTTP+SSE is deprecated", 0},
	} {
		t.Run(name, func(t *testing.T) {
			x.facts.at, x.status.Name = at, "s"
			all := x.facts.about(&x.status)
			if x.kind == "" {
				require.Empty(t, all)
				return
			}
			require.Len(t, all, 1)
			require.NotEmpty(t, all[0].Action)
			require.Equal(t, api.Attention{Server: "s", Kind: x.kind, Severity: x.severity, Text: x.text, Action: all[0].Action, Since: all[0].Since}, all[0])
			if x.since == 0 {
				require.Nil(t, all[0].Since)
				return
			}
			require.Equal(t, ago(x.since), *all[0].Since)
			x.status.Since, x.status.History = time.Time{}, slices.Delete(x.status.History, 0, len(x.status.History))
			require.Equal(t, ago(x.since), *all[0].Since, "the entry does not share the status")
		})
	}
}

// A group that has failed is one entry with its cause. Its servers have none, but for the one that has failed by itself.
func TestAttention_failed_group(t *testing.T) {
	spent := &supervisor.Cause{Kind: supervisor.CauseExit, Message: "exit status 7"}
	failed := &supervisor.Cause{Kind: supervisor.CauseRequested, Message: `group "web" is evicted: "b" was given up`}
	server := func(name string, state supervisor.State, cause *supervisor.Cause) mcpvisor.ServerStatus {
		return mcpvisor.ServerStatus{Name: name, State: state, LastCause: cause, Since: ago(time.Hour)}
	}
	servers := []mcpvisor.ServerStatus{server("a", supervisor.StateEvicted, failed), server("b", supervisor.StateEvicted, spent), server("c", supervisor.StateEvicted, failed),
		server("d", supervisor.StateWaiting, failed), server("other", supervisor.StateEvicted, failed)}
	groups := []mcpvisor.GroupStatus{{Name: "web", State: "given up", Cause: failed, Members: []string{"a", "inner", "later"}},
		{Name: "inner", Parent: "web", State: "given up", Cause: failed, Members: []string{"b", "c"}},
		{Name: "slow", State: "parked", Cause: &supervisor.Cause{Message: `group "slow" is parked: "d" failed`}, Members: []string{"d"}}, {Name: "good", State: "ready"}}
	f := facts{at: at}
	all := f.failedGroups(servers, groups)
	for i := range servers {
		all = append(all, f.about(&servers[i])...)
	}
	sortAttention(all)
	var lines []string
	for _, a := range condense(all) {
		lines = append(lines, string(a.Severity)+"|"+a.Group+"|"+a.Server+"|"+strings.Join(a.Servers, ",")+"|"+a.Text)
	}
	require.Equal(t, []string{`error|web||a,b,c|group "web" is evicted: "b" was given up`, "error||b||exit status 7; given up",
		`error||other||group "web" is evicted: "b" was given up; given up`, `warning|slow||d|group "slow" is parked: "d" failed`}, lines)
}

// Every kind has a place in the order, and a row above.
func TestAttention_order(t *testing.T) {
	require.Len(t, attentionOrder, 21)
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(attentionOrder))), 21)
	all := []api.Attention{{Kind: api.AttentionDeprecated, Severity: api.SeverityNotice}, {Kind: api.AttentionQueued, Severity: api.SeverityWarning, Server: "b"},
		{Kind: api.AttentionQueued, Severity: api.SeverityWarning, Server: "c"}, {Kind: api.AttentionFlapping, Severity: api.SeverityWarning}, {Kind: api.AttentionEvicted, Severity: api.SeverityError}}
	sortAttention(all)
	text, err := json.Marshal(all)
	require.NoError(t, err)
	require.Regexp(t, `evicted.*flapping.*"b".*"c".*deprecated`, string(text))
}

// One server has one entry, and the same trouble of several servers is one.
func TestCondense(t *testing.T) {
	since := time.Now()
	entry := func(server string, kind api.AttentionKind, text string) api.Attention {
		return api.Attention{Server: server, Kind: kind, Severity: api.SeverityWarning, Text: text, Action: "restart it", Since: &since}
	}
	got := condense([]api.Attention{
		entry("a", api.AttentionEvicted, "ECONNREFUSED 10.0.0.1:443"), entry("b", api.AttentionEvicted, "no key"), entry("c", api.AttentionEvicted, "ECONNREFUSED 10.0.0.1:443"),
		entry("", api.AttentionConfiguration, "c.json cannot be read"), entry("d", api.AttentionEvicted, "no key"), entry("e", api.AttentionEvicted, "ECONNREFUSED 10.0.0.1:443"),
		entry("", api.AttentionConfiguration, "d.json cannot be read"), entry("f", api.AttentionQueued, "2 calls wait"), entry("b", api.AttentionDiscarded, "1 line"),
		entry("f", api.AttentionDiscarded, "2 lines"), entry("f", api.AttentionDeprecated, "old"), entry("g", api.AttentionParked, "no key"),
		entry("h", api.AttentionParked, "no db; exit 1; is tried slowly"), entry("h", api.AttentionFlapping, "no db; exit 1; has ended 6 times"),
		{Server: "h", Kind: api.AttentionUnknownOutcome, Text: "1 call: pay", Action: "check whether it had an effect"},
	})
	var texts []string
	for _, a := range got {
		texts = append(texts, a.Server+"|"+strings.Join(a.Servers, ",")+"|"+a.Text+"|"+strings.Join(a.More, ","))
	}
	require.Equal(t, []string{"|a,c,e|3 servers: ECONNREFUSED 10.0.0.1:443|", "|b,d|2 servers: no key|b: 1 line", "||c.json cannot be read|",
		"||d.json cannot be read|", "f||2 calls wait|2 lines,old", "g||no key|",
		"h||no db; exit 1; is tried slowly|has ended 6 times,1 call: pay; check whether it had an effect"}, texts)
	require.Nil(t, got[0].Since)
	require.Equal(t, "restart it", got[0].Action)

	got = condense([]api.Attention{entry("broken-1", api.AttentionFlapping, "broken-1: no key; has ended 6 times within 5 min"), entry("broken-2", api.AttentionFlapping, "broken-2: no key; has ended 7 times within 5 min"),
		entry("other", api.AttentionFlapping, "no disk; has ended 6 times within 5 min"), entry("broken-3", api.AttentionParked, "broken-3: no key")})
	require.Len(t, got, 3, "one cause is told once")
	require.Equal(t, "2 servers: …: no key; has ended several times within 5 min", got[0].Text)
	require.Equal(t, []string{"broken-1", "broken-2"}, got[0].Servers)

	got = condense([]api.Attention{entry("a", api.AttentionParked, "no key"), entry("b", api.AttentionParked, "no key"), entry("c", api.AttentionParked, "no key"),
		entry("a", api.AttentionFlapping, "has ended 6 times"), entry("b", api.AttentionFlapping, "has ended 6 times"), entry("c", api.AttentionFlapping, "has ended 6 times"),
		entry("a", api.AttentionDiscarded, "1 line"), entry("c", api.AttentionDiscarded, "1 line")})
	require.Equal(t, []string{"each: has ended 6 times", "a, c: 1 line"}, got[0].More)
}

// What the page and its API say is in the words of its program.
func TestWithProgram_terms(t *testing.T) {
	c, err := facade.New()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close(context.Background())) })
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", StartSupervised: true, Timeouts: mcpvisor.Timeouts{Start: 50 * time.Millisecond},
		InMemory: mcptest.InMemory(mcptest.Script{StartDelay: time.Hour})}))
	require.ErrorIs(t, c.WaitReady(t.Context(), "s"), mcpvisor.ErrEvicted)
	answer := func(path string, opts ...Option) string {
		h, err := New(c, append(opts, WithOwnAuthentication(), WithControls())...)
		require.NoError(t, err)
		defer h.Close()
		r := httptest.NewRequest(http.MethodGet, path, nil)
		if path == "/api/call" {
			r = httptest.NewRequest(http.MethodPost, path, strings.NewReader(`{"tool": "s/echo"}`))
			r.Header.Set("Content-Type", "application/json")
		}
		r.Host = "localhost"
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Body.String()
	}
	plain := WithProgram(api.Program{Terms: func(text string) string { return strings.ReplaceAll(text, "Timeouts.Start", "timeouts.start") }})
	for _, path := range []string{"/api/status", "/api/servers/s", "/api/events", "/readyz?server=s", "/api/call", "/api/calls"} {
		require.Contains(t, answer(path), "Timeouts.Start", path)
		text := answer(path, plain)
		require.Contains(t, text, "timeouts.start", path)
		require.NotContains(t, text, "Timeouts.Start", path)
	}
	status, _ := c.ServerStatus("s")
	require.Contains(t, status.LastCause.Message, "Timeouts.Start", "the library keeps its words")
}

func TestUsageOf_has_rates_of_the_last_minute(t *testing.T) {
	at := time.Now()
	u := usageOf("fs", []usage.Sample{
		{Seq: 1, At: at.Add(-2 * time.Minute)},
		{Seq: 2, At: at.Add(-time.Minute), Over: time.Minute, Calls: 1000, Failed: 100},
		{Seq: 3, At: at.Add(-20 * time.Second), Over: 40 * time.Second, Calls: 30},
		{Seq: 4, At: at, Over: 20 * time.Second, Calls: 0, Known: true, CPU: 0.25, Memory: 7, Processes: 2},
	}, 2)
	require.InDelta(t, 30, *u.CallsPerMinute, 1e-9)
	require.InDelta(t, 100.0/1030, *u.ErrorShare, 1e-9)
	require.InDelta(t, 0.25, *u.CPU, 1e-9)
	require.EqualValues(t, 7, *u.MemoryBytes)
	require.Len(t, u.Samples, 2)
	require.EqualValues(t, 3, u.Samples[0].Seq)
	require.Nil(t, u.Samples[0].CPU, "not known is not 0")
}

func TestUsersOf_counts_the_standby_and_copies(t *testing.T) {
	users := usage.Of([]mcpvisor.ServerStatus{
		{Name: "a", Gen: 3, Session: &mcpvisor.SessionInfo{PID: 10}, Standby: &mcpvisor.SessionInfo{PID: 11}, Copies: []int{0, 12, 13}, Calls: mcpvisor.CallCounts{Total: 5, Failed: 2}},
		{Name: "b", Session: &mcpvisor.SessionInfo{}},
	})
	require.Equal(t, []usage.Target{{Name: "a", Gen: 3, PIDs: []int{10, 11, 12, 13}, Calls: 5, Failed: 2}, {Name: "b"}}, users)
}
